// One session as WorkManager's work.

package tributary.android

import android.content.Context
import androidx.work.Constraints
import androidx.work.ExistingWorkPolicy
import androidx.work.NetworkType
import androidx.work.OneTimeWorkRequest
import androidx.work.WorkManager
import androidx.work.Worker
import androidx.work.WorkerParameters
import androidx.work.workDataOf
import java.util.concurrent.TimeUnit
import tributary.Cancel
import tributary.Client
import tributary.Conditions
import tributary.Examples

/** Name of the work: there is one session at a time. */
const val WORK_NAME = "tributary"

/**
 * Runs one session and schedules the next one when the coordinator asks for it. An app subclasses it and says which
 * client it is and what it learns from:
 *
 *     class KeyboardWorker(context: Context, parameters: WorkerParameters) : TrainingWorker(context, parameters) {
 *         override fun client() = Client(Settings(SERVER, TOKEN, stateDir()), AndroidKeys("tributary"))
 *         override fun examples() = Examples.ofClasses(listOf(64u), inputs, labels)
 *     }
 *
 *     TrainingWorker.schedule<KeyboardWorker>(context)
 */
abstract class TrainingWorker(context: Context, parameters: WorkerParameters) : Worker(context, parameters) {
    private val cancel = Cancel()

    /** The client of this app. */
    protected abstract fun client(): Client

    /** What to learn from; null for nothing yet. */
    protected abstract fun examples(): Examples?

    /** When training disturbs nobody. WorkManager stops work after ten minutes, so the budget is shorter. */
    protected open fun conditions() = Conditions(timeBudgetMs = 9u * 60_000u)

    /** A folder of the app that no backup copies: a restored identity would be one on two devices. */
    protected fun stateDir(): String = applicationContext.noBackupFilesDir.resolve("tributary").path

    override fun doWork(): Result {
        val examples = examples() ?: return again(PAUSE_MS_AFTER_FAILURE)
        val next = after {
            client().use { client ->
                examples.use { client.runOnce(it, AndroidHost(applicationContext), conditions(), cancel) }
            }
        }
        return when (next) {
            is Next.Again -> again(next.pauseMs)
            is Next.Never -> Result.failure(workDataOf("reason" to next.reason))
        }
    }

    /** Android wants the device back: the session ends before its next batch, and finished work is kept. */
    override fun onStopped() = cancel.cancel()

    private fun again(pauseMs: Long): Result {
        schedule(applicationContext, javaClass, pauseMs, ExistingWorkPolicy.APPEND_OR_REPLACE)
        return Result.success()
    }

    companion object {
        /** Schedules the first session of a worker, unless one is scheduled. */
        inline fun <reified W : TrainingWorker> schedule(context: Context) =
            schedule(context, W::class.java, 0, ExistingWorkPolicy.KEEP)

        /** Schedules a session after a pause: on an unmetered network, with a battery that is not low. */
        fun schedule(
            context: Context,
            worker: Class<out TrainingWorker>,
            pauseMs: Long,
            policy: ExistingWorkPolicy,
        ) {
            val constraints = Constraints.Builder()
                .setRequiredNetworkType(NetworkType.UNMETERED)
                .setRequiresBatteryNotLow(true)
                .setRequiresStorageNotLow(true)
                .build()
            val request = OneTimeWorkRequest.Builder(worker)
                .setConstraints(constraints)
                .setInitialDelay(pauseMs, TimeUnit.MILLISECONDS)
                .build()
            WorkManager.getInstance(context).enqueueUniqueWork(WORK_NAME, policy, request)
        }
    }
}
