// Predicts the rows of a table with the model that a client downloaded last, without a network, or with the one that was
// released on a channel. Prints a line of JSON for each row.
//
//     java -cp .. tributary.example.PredictKt SERVER TOKEN FOLDER JOB|@CHANNEL TABLE

package tributary.example

import java.io.File
import kotlin.system.exitProcess
import tributary.Client
import tributary.Model
import tributary.Settings

/** A field of a table in the column of this name: a category by its code, NaN where nothing is written. */
private fun raw(model: Model, column: String, text: String): Double =
    if (text.isEmpty()) Double.NaN else model.category(column, text) ?: text.toDouble()

fun main(arguments: Array<String>) {
    val (server, token, folder, job, path) = arguments
    Client(Settings(server, token, folder)).use { client ->
        val model = if (job.startsWith("@")) client.released(job.drop(1)) else client.model(job)
        if (model == null) {
            System.err.println("the client has no model of the job $job")
            exitProcess(1)
        }
        val lines = File(path).readLines().map { it.split(',') }
        for (row in lines.drop(1)) {
            val texts = lines[0].zip(row).toMap()
            val prediction = model.predict(model.columns().map { raw(model, it, texts.getValue(it)) })
            println("""{"class": "${prediction.label}", "outputs": ${prediction.outputs}}""")
        }
    }
}
