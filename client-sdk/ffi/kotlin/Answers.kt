// A client on the JVM that answers analyses from a table: a line of names, then texts and numbers. Nothing of its rows
// is sent but the sums that an analysis asks for. It ends once it has answered.
//
//     java -cp .. tributary.example.AnswersKt SERVER TOKEN FOLDER TABLE

package tributary.example

import java.io.File
import kotlin.system.exitProcess
import tributary.Cell
import tributary.Client
import tributary.Outcome
import tributary.Sets
import tributary.Settings
import tributary.TrainerException
import tributary.TributaryException

/** The rows of a file. */
class Rows(file: String) : tributary.Table {
    private val lines = File(file).readLines().map { it.split(',') }

    override fun rows(columns: List<String>): List<List<Cell>> {
        val places = columns.map { lines[0].indexOf(it) }
        if (-1 in places) throw TrainerException.DoesNotFit("the table lacks one of $columns")
        // A number as text is a number.
        return lines.drop(1).map { line ->
            places.map { if (line[it].isEmpty()) Cell.Missing else Cell.Text(line[it]) }
        }
    }
}

fun main(arguments: Array<String>) {
    if (arguments.size != 4) {
        System.err.println("usage: SERVER TOKEN FOLDER TABLE")
        exitProcess(2)
    }
    val (server, token, folder, table) = arguments
    try {
        Client(Settings(server, token, folder, waitMs = 60_000u), table = Rows(table)).use { client ->
            while (client.runSets(Sets()) !is Outcome.Contributed) Unit
        }
        println("""{"outcome": "contributed"}""")
    } catch (failure: TributaryException) {
        System.err.println(failure)
        exitProcess(1)
    }
}
