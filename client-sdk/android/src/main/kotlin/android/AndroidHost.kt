// What Android says about the device.

package tributary.android

import android.content.Context
import android.content.Intent
import android.content.IntentFilter
import android.net.ConnectivityManager
import android.os.BatteryManager
import android.os.Build
import android.os.PowerManager
import tributary.Device
import tributary.Host

/** The device for the conditions of a session. It needs `ACCESS_NETWORK_STATE`. */
class AndroidHost(private val context: Context) : Host {
    override fun device(): Device {
        val network = context.getSystemService(ConnectivityManager::class.java)
        val power = context.getSystemService(PowerManager::class.java)
        val battery = context.registerReceiver(null, IntentFilter(Intent.ACTION_BATTERY_CHANGED))
        val thermal = if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) power?.currentThermalStatus else null
        return Device(
            metered = network?.isActiveNetworkMetered,
            charging = battery?.let { it.getIntExtra(BatteryManager.EXTRA_PLUGGED, 0) != 0 },
            batteryPercent = battery?.let {
                batteryPercentOf(
                    it.getIntExtra(BatteryManager.EXTRA_LEVEL, -1),
                    it.getIntExtra(BatteryManager.EXTRA_SCALE, -1),
                )
            },
            thermal = thermal?.let(::thermalOf),
        )
    }
}
