// What iOS says about the device.

import Foundation
import Network
import Tributary
import UIKit

/// The device for the conditions of a session.
public final class DeviceHost: Host {
    private let monitor = NWPathMonitor()

    public init() {
        monitor.start(queue: DispatchQueue(label: "tributary.network"))
        DispatchQueue.main.async { UIDevice.current.isBatteryMonitoringEnabled = true }
    }

    deinit { monitor.cancel() }

    public func device() throws -> Device {
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
