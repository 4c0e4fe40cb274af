// What iOS says about the device.

#if os(iOS)
import Foundation
import Network
import Tributary
import UIKit

/// The device for the conditions of a session.
public final class DeviceHost: Host {
    /// Longest time until iOS has said what the network and the battery are.
    private static let wait: TimeInterval = 5

    private let monitor = NWPathMonitor()
    /// Two signals: the first path of the network, and that the battery is watched.
    private let ready = DispatchGroup()
    private let firstPath = NSLock()
    private var hasPath = false

    public init() {
        ready.enter()
        monitor.pathUpdateHandler = { [weak self] _ in self?.pathArrived() }
        monitor.start(queue: DispatchQueue(label: "tributary.network"))
        DispatchQueue.main.async(group: ready) { UIDevice.current.isBatteryMonitoringEnabled = true }
    }

    deinit { monitor.cancel() }

    private func pathArrived() {
        firstPath.lock()
        defer { firstPath.unlock() }
        if !hasPath {
            hasPath = true
            ready.leave()
        }
    }

    /// Waits for the first path of the network: before it the network is unknown, which hinders nothing, and the first
    /// check would pass on mobile data. Not to be called on the main thread.
    public func device() throws -> Device {
        if ready.wait(timeout: .now() + Self.wait) == .timedOut {
            throw CallbackError.Failed(detail: "iOS does not say what the network is")
        }
        let battery = UIDevice.current
        let charging: Bool? = switch battery.batteryState {
        case .charging, .full: true
        case .unplugged: false
        default: nil
        }
        let thermal: Thermal = switch ProcessInfo.processInfo.thermalState {
        case .nominal: .none
        case .fair: .light
        default: .severe
        }
        let path = monitor.currentPath
        return Device(
            metered: path.status == .satisfied ? path.isExpensive || path.isConstrained : nil,
            charging: charging,
            batteryPercent: battery.batteryLevel < 0 ? nil : UInt8(min(100, battery.batteryLevel * 100)),
            thermal: thermal
        )
    }
}
#endif
