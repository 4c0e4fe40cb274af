// A client on the JVM of an app with two models: examples for one, a trainer for the other, by the names that jobs give
// in `data`. It ends once it has contributed to both jobs.
//
//     java -cp .. tributary.example.TwoModelsKt SERVER TOKEN FOLDER TYPING_TABLE PHOTOS_TABLE

package tributary.example

import kotlin.system.exitProcess
import tributary.Client
import tributary.Examples
import tributary.Outcome
import tributary.Sets
import tributary.Settings
import tributary.Stop
import tributary.TrainTask
import tributary.Trained
import tributary.Trainer
import tributary.TrainerException
import tributary.TributaryException

/** Trains for jobs that name this set, and for no others. */
class OfSet(private val name: String, private val trainer: Trainer) : Trainer by trainer {
    override fun train(task: TrainTask, stop: Stop): Trained {
        if (task.data != name) throw TrainerException.DoesNotFit("the job ${task.job} uses the set ${task.data}")
        return trainer.train(task, stop)
    }
}

private const val MODELS = 2

fun main(arguments: Array<String>) {
    if (arguments.size != 5) {
        System.err.println("usage: SERVER TOKEN FOLDER TYPING_TABLE PHOTOS_TABLE")
        exitProcess(2)
    }
    val (server, token, folder, typing, photos) = arguments
    val table = Table.read(typing)
    val inputs = table.inputs.flatMap { it.asList() }.toFloatArray()
    val shape = listOf(table.inputs[0].size.toULong())
    val sets = Sets()
    Examples.ofClasses(shape, inputs, table.labels.map { it.toUInt() }).use { sets.addExamples("typing", it) }
    sets.addTrainer("photos", OfSet("photos", Softmax(Table.read(photos))))
    val settings = Settings(server, token, folder, mapOf("kind" to "kotlin-sets"), waitMs = 60_000u)
    try {
        Client(settings).use { client ->
            var done = 0
            while (done < MODELS) {
                val outcome = client.runSets(sets)
                if (outcome is Outcome.Contributed) {
                    println("""{"outcome": "contributed", "round": ${outcome.round}}""")
                    done += 1
                }
            }
        }
    } catch (failure: TributaryException) {
        System.err.println(failure)
        exitProcess(1)
    }
}
