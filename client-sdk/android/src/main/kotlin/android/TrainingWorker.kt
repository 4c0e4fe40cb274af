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
import tributary.Sets
import tributary.Trainer

/** Name of the work: there is one session at a time. */
const val WORK_NAME = "tributary"

/**
 * Runs one session and schedules the next one when the coordinator asks for it. An app subclasses it and says which
 * client it is and what it learns from: [examples] for models of layers, a [trainer] for its own network, or [sets] of
 * them for several models:
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

    /** What to learn from, for models that are a list of layers; null for nothing yet. */
    protected open fun examples(): Examples? = null

    /** What trains a network of the app; null for [examples]. */
    protected open fun trainer(): Trainer? = null

    /** Examples or trainers by the names of example sets, for an app with several models; null for [trainer]. */
    protected open fun sets(): Sets? = null

    /** When training disturbs nobody. WorkManager stops work after ten minutes, so the budget is shorter. */
    protected open fun conditions() = Conditions(timeBudgetMs = 9u * 60_000u)

    /** When Android may start the next session, as [whenFree] by default. */
    protected open fun constraints(): Constraints = whenFree()

    /** A folder of the app that no backup copies: a restored identity would be one on two devices. */
    protected fun stateDir(): String = applicationContext.noBackupFilesDir.resolve("tributary").path

    override fun doWork(): Result {
        val next = after {
            val host = AndroidHost(applicationContext)
            client().use { client ->
                val (sets, trainer) = sets() to trainer()
                if (sets != null) {
                    client.runSets(sets, host, conditions(), cancel)
                } else if (trainer != null) {
                    client.runTrainer(trainer, host, conditions(), cancel)
                } else {
                    examples()?.use { client.runOnce(it, host, conditions(), cancel) }
                }
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
        schedule(applicationContext, javaClass, pauseMs, ExistingWorkPolicy.APPEND_OR_REPLACE, constraints())
        return Result.success()
    }

    companion object {
        /**
         * An unmetered network, a battery and a storage that are not low; and, if asked for, external power and a device
         * that nobody uses.
         */
        fun whenFree(charging: Boolean = false, idle: Boolean = false): Constraints = Constraints.Builder()
            .setRequiredNetworkType(NetworkType.UNMETERED)
            .setRequiresBatteryNotLow(true)
            .setRequiresStorageNotLow(true)
            .setRequiresCharging(charging)
            .setRequiresDeviceIdle(idle)
            .build()

        /** Schedules the first session of a worker, unless one is scheduled. Later ones have its own `constraints()`. */
        inline fun <reified W : TrainingWorker> schedule(context: Context, constraints: Constraints = whenFree()) =
            schedule(context, W::class.java, 0, ExistingWorkPolicy.KEEP, constraints)

        /** Schedules a session after a pause. */
        fun schedule(
            context: Context,
            worker: Class<out TrainingWorker>,
            pauseMs: Long,
            policy: ExistingWorkPolicy,
            constraints: Constraints,
        ) {
            val request = OneTimeWorkRequest.Builder(worker)
                .setConstraints(constraints)
                .setInitialDelay(pauseMs, TimeUnit.MILLISECONDS)
                .build()
            WorkManager.getInstance(context).enqueueUniqueWork(WORK_NAME, policy, request)
        }
    }
}
