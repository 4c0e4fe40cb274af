// Mistakes of an app, and the rules of the Android adapter, on the JVM.
//
//     java .. tributary.example.ChecksKt SERVER TOKEN FOLDER

package tributary.example

import java.security.KeyPairGenerator
import java.security.Signature
import java.security.spec.ECGenParameterSpec
import java.util.concurrent.CountDownLatch
import kotlin.concurrent.thread
import tributary.CallbackException
import tributary.Cancel
import tributary.Checkpoint
import tributary.Client
import tributary.Conditions
import tributary.Consent
import tributary.Device
import tributary.EvaluateTask
import tributary.Evaluated
import tributary.Examples
import tributary.Host
import tributary.Outcome
import tributary.PrivacyFloor
import tributary.Settings
import tributary.Stop
import tributary.Thermal
import tributary.TrainTask
import tributary.Trained
import tributary.Trainer
import tributary.TrainerException
import tributary.TributaryException
import tributary.android.Next
import tributary.android.PAUSE_MS_AFTER_FAILURE
import tributary.android.PAUSE_MS_MIN
import tributary.android.PairKeys
import tributary.android.after
import tributary.android.batteryPercentOf
import tributary.android.pointOf
import tributary.android.thermalOf

private inline fun <reified E : Throwable> throws(what: String, work: () -> Unit): E {
    try {
        work()
    } catch (thrown: Throwable) {
        check(thrown is E) { "$what threw $thrown" }
        return thrown
    }
    error("$what threw nothing")
}

/** A trainer whose training is this function. */
private class Training(private val train: (TrainTask, Stop) -> Trained) : Trainer {
    override fun examples() = 4uL
    override fun train(task: TrainTask, stop: Stop) = train.invoke(task, stop)
    override fun evaluate(task: EvaluateTask, stop: Stop): Evaluated = error("no evaluation is expected")
}

private class Saying(private val device: () -> Device) : Host {
    override fun device() = device.invoke()
}

private fun badInput(settings: Settings) {
    val shape = listOf(2uL)
    throws<TributaryException.BadInput>("NaN") { Examples.ofClasses(shape, floatArrayOf(1f, Float.NaN), listOf(0u)) }
    throws<TributaryException.BadInput>("half an example") { Examples.ofClasses(shape, floatArrayOf(1f), listOf(0u)) }
    throws<TributaryException.BadInput>("no label") { Examples.ofClasses(shape, floatArrayOf(1f, 2f), listOf()) }
    throws<TributaryException.BadInput>("a huge shape") {
        Examples.ofClasses(listOf(ULong.MAX_VALUE, 2uL), floatArrayOf(1f), listOf(0u))
    }
    throws<TributaryException.BadInput>("a token") { Client(settings.copy(token = "secret")) }
    throws<TributaryException.BadInput>("a consent") { Client(settings.copy(consent = Consent("", 0))) }
    throws<TributaryException.BadInput>("a kind") { Client(settings.copy(sdk = "a b")) }
}

private fun sessions(settings: Settings) {
    val examples = Examples.ofClasses(listOf(4uL), FloatArray(4), listOf(0u))
    Client(settings).use { client ->
        val hosts = listOf(
            Saying { error("the sensor is gone") },
            Saying { throw CallbackException.Failed("locked") },
            Saying { Device(metered = true) },
            Saying { Device(batteryPercent = 29u) },
            Saying { Device(thermal = Thermal.MODERATE) },
        )
        for ((index, host) in hosts.withIndex()) {
            val outcome = client.runOnce(examples, host)
            check(outcome is Outcome.Interrupted) { "host $index: $outcome" }
        }
        throws<TributaryException.BadInput>("a battery") {
            client.runOnce(examples, conditions = Conditions(batteryPercentMin = 101u))
        }
    }

    Client(settings.copy(stateDir = settings.stateDir + "-cancelled", attributes = mapOf("check" to "cancel"))).use {
        val (begun, cancel) = CountDownLatch(1) to Cancel()
        thread(isDaemon = true) { begun.await(); cancel.cancel() }
        val waits = Training { _, stop ->
            begun.countDown()
            while (!stop.isSet()) Thread.onSpinWait()
            throw TrainerException.Interrupted()
        }
        val outcome = it.runTrainer(waits, cancel = cancel)
        check(outcome is Outcome.Interrupted) { "cancelled: $outcome" }
    }

    val demands = settings.copy(
        stateDir = settings.stateDir + "-floor", attributes = mapOf("check" to "floor"),
        consent = Consent("consent-v3", 1_798_761_600_000), privacyFloor = PrivacyFloor(secureAggregation = true),
    )
    Client(demands).use {
        val refuses = throws<TributaryException.Privacy>("a job without masks") { it.runOnce(examples) }
        check("would read what this client sends" in refuses.detail) { refuses.detail }
    }

    val suspends = settings.copy(stateDir = settings.stateDir + "-suspended", attributes = mapOf("check" to "suspend"))
    Client(suspends).use { client ->
        val (begun, cancel) = CountDownLatch(1) to Cancel()
        thread(isDaemon = true) { begun.await(); cancel.cancel() }
        val interrupted = Training { task, stop ->
            check(task.resume == null && task.maySuspend)
            begun.countDown()
            while (!stop.isSet()) Thread.onSpinWait()
            throw TrainerException.Suspended(Checkpoint(2uL, 0.75, "two steps".toByteArray()))
        }
        val first = client.runTrainer(interrupted, cancel = cancel)
        check(first is Outcome.Interrupted) { "suspended: $first" }
        val continues = Training { task, _ ->
            val resume = checkNotNull(task.resume)
            check(resume.steps == 2uL && resume.losses == 0.75 && String(resume.bytes) == "two steps")
            Trained(task.model, 4uL, resume.steps + 1uL, 0.5)
        }
        val second = client.runTrainer(continues)
        check(second is Outcome.Contributed) { "continued: $second" }
    }

    Client(settings.copy(stateDir = settings.stateDir + "-throwing", attributes = mapOf("check" to "throw"))).use {
        val fails = Training { task, _ ->
            check(task.model.map { it.shape } == listOf(listOf(3uL, 4uL), listOf(3uL)))
            check(task.model.all { it.values.size == it.shape.fold(1) { size, each -> size * each.toInt() } })
            error("the disk of the phone is full")
        }
        val thrown = throws<TributaryException.Training>("a trainer") { it.runTrainer(fails) }
        check("the disk of the phone is full" in thrown.detail) { thrown.detail }
    }
}

private fun keys() {
    val generator = KeyPairGenerator.getInstance("EC").apply { initialize(ECGenParameterSpec("secp256r1")) }
    val pair = generator.generateKeyPair()
    val keys = PairKeys { pair }
    check(keys.publicKey().size == 65 && keys.publicKey().contentEquals(pointOf(pair.public)))
    val message = "message".toByteArray()
    val verifier = Signature.getInstance("SHA256withECDSA").apply { initVerify(pair.public); update(message) }
    check(verifier.verify(keys.sign(message)))
    val other = KeyPairGenerator.getInstance("RSA").generateKeyPair()
    throws<CallbackException.Failed>("a key of RSA") { PairKeys { other }.publicKey() }
    throws<CallbackException.Failed>("a signature of RSA") { PairKeys { other }.sign(message) }
}

private fun rules() {
    check(listOf(-1, 0, 1, 2, 3, 6).map(::thermalOf).map { it.name } ==
        listOf("NONE", "NONE", "LIGHT", "MODERATE", "SEVERE", "SEVERE"))
    val charges = listOf(0 to 100, 1 to 3, 200 to 100, -1 to 100, 5 to 0)
    check(charges.map { (level, scale) -> batteryPercentOf(level, scale) } == listOf<UByte?>(0u, 33u, 100u, null, null))
    check(after { Outcome.Contributed(1u, 7uL) } == Next.Again(PAUSE_MS_MIN))
    check(after { Outcome.Interrupted(ULong.MAX_VALUE) } == Next.Again(Long.MAX_VALUE))
    check(after { throw TributaryException.Unreachable("away") } == Next.Again(PAUSE_MS_AFTER_FAILURE))
    check(after { throw TributaryException.Refused("busy", "too-many-requests", 4_000_000uL) } == Next.Again(4_000_000))
    val later = Next.Again(PAUSE_MS_AFTER_FAILURE)
    check(after { throw TributaryException.DoesNotFit("three inputs") } == later)
    check(after { throw TributaryException.NoExamples("none") } == later)
    check(after { throw IllegalStateException("the database is locked") } == later)
    check(after { null } == later)
    check(after { throw TributaryException.BadInput("a token") } is Next.Never)
}

fun main(arguments: Array<String>) {
    val (server, token, folder) = arguments
    val settings = Settings(server, token, folder, waitMs = 60_000u)
    badInput(settings)
    rules()
    keys()
    sessions(settings)
    println("all checks passed")
}
