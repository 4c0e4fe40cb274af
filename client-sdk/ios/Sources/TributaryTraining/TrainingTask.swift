// One session as a background processing task.

#if os(iOS)
import BackgroundTasks
import Foundation
import Tributary

/// Runs sessions when iOS has time for them. An app lists `identifier` in `BGTaskSchedulerPermittedIdentifiers`, calls
/// `register` before its launch has finished, and `schedule` whenever it goes to the background.
@available(iOS 15.0, *)
public final class TrainingTask {
    /// Pause after a failed session, if nobody said how long.
    static let pauseAfterFailure: TimeInterval = 3600

    private let identifier: String
    private let conditions: Conditions
    private let client: () throws -> Client
    private let examples: () throws -> Examples?
    private let trainer: () throws -> Trainer?
    private let sets: () throws -> Sets?

    /// - Parameters:
    ///   - identifier: The task's name, for example `org.example.app.training`.
    ///   - conditions: When training disturbs nobody. iOS gives a processing task several minutes.
    ///   - client: The client of this app.
    ///   - sets: Examples or trainers by the names of example sets, for an app with several models; nil for `trainer`.
    ///   - trainer: What trains a network of the app; nil for `examples`.
    ///   - examples: What to learn from, for models that are a list of layers; nil for nothing yet.
    public init(
        identifier: String,
        conditions: Conditions = Conditions(),
        client: @escaping () throws -> Client,
        sets: @escaping () throws -> Sets? = { nil },
        trainer: @escaping () throws -> Trainer? = { nil },
        examples: @escaping () throws -> Examples? = { nil }
    ) {
        self.identifier = identifier
        self.conditions = conditions
        self.client = client
        self.examples = examples
        self.trainer = trainer
        self.sets = sets
    }

    /// Says to iOS what the task does.
    @discardableResult
    public func register() -> Bool {
        BGTaskScheduler.shared.register(forTaskWithIdentifier: identifier, using: nil) { task in
            self.run(task)
        }
    }

    /// Asks iOS for a session after a pause: with a network, and on external power.
    public func schedule(after pause: TimeInterval = 0) throws {
        let request = BGProcessingTaskRequest(identifier: identifier)
        request.requiresNetworkConnectivity = true
        request.requiresExternalPower = true
        request.earliestBeginDate = pause > 0 ? Date(timeIntervalSinceNow: pause) : nil
        try BGTaskScheduler.shared.submit(request)
    }

    private func run(_ task: BGTask) {
        let cancel = Cancel()
        // iOS wants the device back: the session ends before its next batch, and finished work is kept.
        task.expirationHandler = { cancel.cancel() }
        DispatchQueue.global(qos: .utility).async {
            let pause = self.session(cancel)
            if let pause { try? self.schedule(after: pause) }
            task.setTaskCompleted(success: pause != nil)
        }
    }

    /// Runs a session; nil where there is nothing to learn from yet.
    private func outcome(_ cancel: Cancel) throws -> Outcome? {
        if let sets = try sets() {
            return try client().runSets(sets: sets, host: DeviceHost(), conditions: conditions, cancel: cancel)
        }
        if let trainer = try trainer() {
            return try client().runTrainer(
                trainer: trainer, host: DeviceHost(), conditions: conditions, cancel: cancel
            )
        }
        guard let examples = try examples() else { return nil }
        return try client().runOnce(
            examples: examples, host: DeviceHost(), conditions: conditions, cancel: cancel
        )
    }

    /// Runs a session. Returns the pause before the next one; nil if settings must change first. Examples and jobs change,
    /// and what the app throws may pass.
    private func session(_ cancel: Cancel) -> TimeInterval? {
        do {
            guard let outcome = try outcome(cancel) else { return Self.pauseAfterFailure }
            switch outcome {
            case let .contributed(_, retryAfterMs), let .evaluated(_, retryAfterMs),
                let .described(_, retryAfterMs), let .nothingToDo(_, retryAfterMs),
                let .tooLate(_, retryAfterMs), let .interrupted(retryAfterMs):
                return TimeInterval(retryAfterMs) / 1000
            }
        } catch let TributaryError.Refused(_, _, retryAfterMs) {
            return retryAfterMs.map { TimeInterval($0) / 1000 } ?? Self.pauseAfterFailure
        } catch TributaryError.BadInput {
            return nil
        } catch {
            return Self.pauseAfterFailure
        }
    }
}
#endif
