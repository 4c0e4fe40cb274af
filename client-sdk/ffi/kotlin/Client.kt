// A client on the JVM: one session with examples and labels (`layers`), or with a trainer in Kotlin (`trainer`).
//
//     java -cp .. tributary.example.ClientKt KIND SERVER TOKEN FOLDER TABLE

package tributary.example

import java.io.File
import kotlin.math.exp
import kotlin.math.ln
import kotlin.system.exitProcess
import tributary.Cancel
import tributary.Client
import tributary.Conditions
import tributary.Device
import tributary.EvaluateTask
import tributary.Evaluated
import tributary.Examples
import tributary.Host
import tributary.Outcome
import tributary.Settings
import tributary.Stop
import tributary.Tensor
import tributary.TrainTask
import tributary.Trained
import tributary.Trainer
import tributary.TrainerException
import tributary.TributaryException

/** Rows of numbers, and the class of each. */
class Table(val inputs: List<FloatArray>, val labels: List<Int>) {
    companion object {
        /** Reads a table: a line of names, then numbers, the last of which is the class. */
        fun read(path: String): Table {
            val rows = File(path).readLines().drop(1).map { it.split(',') }
            val inputs = rows.map { row -> row.dropLast(1).map(String::toFloat).toFloatArray() }
            return Table(inputs, rows.map { it.last().toInt() })
        }
    }
}

/** Softmax regression on all examples in each step, for a job with one linear layer. */
class Softmax(private val table: Table) : Trainer {
    override fun examples() = table.labels.size.toULong()

    override fun train(task: TrainTask, stop: Stop): Trained {
        val (weights, biases) = network(task.model)
        val steps = (task.steps ?: task.epochs ?: 1u).toInt()
        var losses = 0.0
        repeat(steps) {
            if (stop.isSet()) throw TrainerException.Interrupted()
            val gradient = Array(biases.size) { DoubleArray(weights.size / biases.size + 1) }
            table.inputs.forEachIndexed { index, input ->
                val shares = shares(weights, biases, input)
                losses -= ln(shares[table.labels[index]]) / table.labels.size
                shares.forEachIndexed { row, share ->
                    val error = (share - if (table.labels[index] == row) 1.0 else 0.0) / table.labels.size
                    input.forEachIndexed { column, value -> gradient[row][column] += error * value }
                    gradient[row][input.size] += error
                }
            }
            gradient.forEachIndexed { row, columns ->
                val width = columns.size - 1
                for (column in 0 until width) {
                    val at = row * width + column
                    weights[at] = (weights[at] - task.learningRate * columns[column]).toFloat()
                }
                biases[row] = (biases[row] - task.learningRate * columns[width]).toFloat()
            }
        }
        return Trained(task.model, examples(), steps.toULong(), losses / steps)
    }

    override fun evaluate(task: EvaluateTask, stop: Stop): Evaluated {
        val (weights, biases) = network(task.model)
        val all = table.inputs.map { shares(weights, biases, it) }
        val loss = all.withIndex().sumOf { (index, shares) -> -ln(shares[table.labels[index]]) } / all.size
        val right = all.withIndex().count { (index, shares) ->
            shares.indices.maxBy { shares[it] } == table.labels[index]
        }
        return Evaluated(examples(), loss, right.toDouble() / all.size, mapOf("kotlin" to 1.0))
    }

    private fun network(model: List<Tensor>): Pair<FloatArray, FloatArray> {
        val weights = model.find { it.shape.size == 2 } ?: throw TrainerException.DoesNotFit("no weights")
        val biases = model.find { it.shape.size == 1 } ?: throw TrainerException.DoesNotFit("no biases")
        return weights.values to biases.values
    }

    private fun shares(weights: FloatArray, biases: FloatArray, input: FloatArray): DoubleArray {
        val scores = DoubleArray(biases.size) { row ->
            input.indices.fold(biases[row].toDouble()) { sum, at -> sum + weights[row * input.size + at] * input[at] }
        }
        val highest = scores.max()
        val sum = scores.sumOf { exp(it - highest) }
        return DoubleArray(scores.size) { exp(scores[it] - highest) / sum }
    }
}

/** A device on the desk: unmetered and charging. */
object Desk : Host {
    override fun device() = Device(metered = false, charging = true)
}

fun main(arguments: Array<String>) {
    if (arguments.size != 5) {
        System.err.println("usage: KIND SERVER TOKEN FOLDER TABLE")
        exitProcess(2)
    }
    val (kind, server, token, folder, path) = arguments
    val table = Table.read(path)
    val settings = Settings(server, token, folder, mapOf("kind" to "kotlin-$kind"), waitMs = 60_000u)
    try {
        val outcome = Client(settings).use { client ->
            when (kind) {
                "layers" -> {
                    val inputs = table.inputs.flatMap { it.asList() }.toFloatArray()
                    val shape = listOf(table.inputs[0].size.toULong())
                    Examples.ofClasses(shape, inputs, table.labels.map { it.toUInt() })
                        .use { client.runOnce(it, Desk, Conditions(), Cancel()) }
                }
                else -> client.runTrainer(Softmax(table), Desk)
            }
        }
        when (outcome) {
            is Outcome.Contributed -> println("""{"outcome": "contributed", "round": ${outcome.round}}""")
            is Outcome.Evaluated -> println("""{"outcome": "evaluated", "round": ${outcome.round}}""")
            else -> println("""{"outcome": "$outcome"}""")
        }
    } catch (failure: TributaryException) {
        System.err.println(failure)
        exitProcess(1)
    }
}
