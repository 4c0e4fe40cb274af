// The shortest app: it takes part in a round of the job `points` and predicts. `SmallestKt SERVER TOKEN`

package tributary.example

import tributary.Client
import tributary.Examples
import tributary.Settings

fun main(arguments: Array<String>) {
    val (server, token) = arguments
    val client = Client(Settings(server, token, "state"))
    val inputs = floatArrayOf(0.5f, -1.0f, -0.25f, 0.75f)
    client.runOnce(Examples.ofClasses(listOf(2uL), inputs, listOf(0u, 1u)))
    val prediction = client.model("points")?.predict(listOf(0.1, -0.4))
    println("${prediction?.label} ${prediction?.probabilities}")
}
