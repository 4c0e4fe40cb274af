// What the adapter decides without Android: tests compile and run this file on the JVM.

package tributary.android

import tributary.Outcome
import tributary.Thermal
import tributary.TributaryException

/** Shortest pause between two sessions: WorkManager runs periodic work no more often. */
const val PAUSE_MS_MIN: Long = 15 * 60_000

/** Pause after a failed session, if nobody said how long. */
const val PAUSE_MS_AFTER_FAILURE: Long = 60 * 60_000

/** How warm a device is, by `PowerManager.getCurrentThermalStatus()`. */
fun thermalOf(status: Int): Thermal = when {
    status <= 0 -> Thermal.NONE
    status == 1 -> Thermal.LIGHT
    status == 2 -> Thermal.MODERATE
    else -> Thermal.SEVERE
}

/** The charge by `BatteryManager.EXTRA_LEVEL` and `EXTRA_SCALE`; null where Android does not say. */
fun batteryPercentOf(level: Int, scale: Int): UByte? =
    if (level < 0 || scale <= 0) null else (100L * level / scale).coerceIn(0, 100).toInt().toUByte()

/** What follows a session. */
sealed class Next {
    /** Another session, after this time. */
    data class Again(val pauseMs: Long) : Next()

    /** No other session: settings must change first. */
    data class Never(val reason: String) : Next()
}

/**
 * When to begin the next session after this one; null is none, since there is nothing to learn from yet. Examples and jobs
 * change, and what an app throws may pass: after those another session follows. Wrong settings stay wrong.
 */
fun after(session: () -> Outcome?): Next = try {
    val pauseMs = when (val outcome = session()) {
        null -> PAUSE_MS_AFTER_FAILURE.toULong()
        is Outcome.Contributed -> outcome.retryAfterMs
        is Outcome.Evaluated -> outcome.retryAfterMs
        is Outcome.Described -> outcome.retryAfterMs
        is Outcome.NothingToDo -> outcome.retryAfterMs
        is Outcome.TooLate -> outcome.retryAfterMs
        is Outcome.Interrupted -> outcome.retryAfterMs
    }
    Next.Again(pause(pauseMs))
} catch (failure: TributaryException) {
    when (failure) {
        is TributaryException.BadInput -> Next.Never(failure.message ?: "the session failed")
        is TributaryException.Refused -> Next.Again(failure.retryAfterMs?.let(::pause) ?: PAUSE_MS_AFTER_FAILURE)
        else -> Next.Again(PAUSE_MS_AFTER_FAILURE)
    }
} catch (thrown: Exception) {
    // Of the app: its database may be locked, for example.
    Next.Again(PAUSE_MS_AFTER_FAILURE)
}

private fun pause(milliseconds: ULong) = milliseconds.coerceAtMost(Long.MAX_VALUE.toULong()).toLong()
    .coerceAtLeast(PAUSE_MS_MIN)
