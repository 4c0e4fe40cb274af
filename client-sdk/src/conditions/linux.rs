//! What a Linux system says about itself: power and heat in `/sys`, processor time in `/proc`, and NetworkManager about
//! the network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use super::device::{Device, Thermal};
use crate::clock::{Clock, SystemClock};
use crate::locked::Locked;

/// How long NetworkManager's answer holds: asking it starts a program.
const METERED_EVERY_MS: u64 = 30_000;
/// A device is warm from so many thousandths of a degree below the temperature at which the system acts.
const NEAR: i64 = 10_000;
/// Temperatures of trip points, in thousandths of a degree, outside of which drivers mean "never".
const TRIPS: std::ops::Range<i64> = 1_000..200_000;

/// Asks systemd's tool for a property of NetworkManager, so that the SDK needs no library for D-Bus.
const METERED: [&str; 9] = [
    "busctl",
    "--system",
    "--timeout=2",
    "--auto-start=no",
    "get-property",
    "org.freedesktop.NetworkManager",
    "/org/freedesktop/NetworkManager",
    "org.freedesktop.NetworkManager",
    "Metered",
];

/// This machine, as the kernel and NetworkManager describe it. What nobody says is unknown: a server has no battery,
/// and where `busctl` or NetworkManager is missing, nothing says that a network is metered.
#[derive(Debug)]
pub struct LinuxDevice {
    /// The folder that holds `sys` and `proc`.
    root: PathBuf,
    /// A program and its arguments, which prints the property `Metered`.
    ask_metered: Vec<String>,
    clock: Arc<dyn Clock>,
    /// NetworkManager's latest answer, and its time.
    metered: Mutex<Option<(u64, Option<bool>)>>,
    /// Processor time at the latest question.
    latest: Mutex<Option<Ticks>>,
}

/// Processor time since the system started, in ticks of all processors.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    total: u64,
    idle: u64,
    /// Of this process.
    own: u64,
}

impl Default for LinuxDevice {
    fn default() -> Self {
        Self::at(Path::new("/"), METERED.map(str::to_owned).to_vec(), Arc::new(SystemClock::default()))
    }
}

impl LinuxDevice {
    fn at(root: &Path, ask_metered: Vec<String>, clock: Arc<dyn Clock>) -> Self {
        let root = root.to_owned();
        let latest = Mutex::new(ticks(&root));
        Self { root, ask_metered, clock, metered: Mutex::default(), latest }
    }

    /// The machine now. `busy_percent` is of the time since the last call, or since this value was made.
    pub fn read(&self) -> Device {
        let (charging, battery_percent) = self.power();
        Device {
            metered: self.is_metered(),
            charging,
            battery_percent,
            thermal: self.thermal(),
            busy_percent: self.busy_percent(),
        }
    }

    /// Whether there is external power, and the charge of the fullest battery of the machine itself.
    fn power(&self) -> (Option<bool>, Option<u8>) {
        let (mut charging, mut percent) = (None, None);
        for supply in entries(&self.root.join("sys/class/power_supply"), "") {
            // Mice and headphones have batteries, too.
            let is_own = text(&supply, "scope").is_none_or(|scope| scope != "Device");
            let has_power = match text(&supply, "type").as_deref() {
                Some("Battery") if is_own => {
                    percent = percent.max(number(&supply, "capacity").and_then(|charge| u8::try_from(charge).ok()));
                    // "Not charging" is said by a battery that is kept below 100 % to spare it.
                    match text(&supply, "status").as_deref() {
                        Some("Charging" | "Full" | "Not charging") => Some(true),
                        Some("Discharging") => Some(false),
                        _ => None,
                    }
                }
                Some("Mains" | "USB" | "Wireless") if is_own => number(&supply, "online").map(|online| online > 0),
                _ => None,
            };
            charging = charging.max(has_power);
        }
        (charging, percent.map(|percent: u8| percent.min(100)))
    }

    /// The warmest of the zones that say at which temperature the system acts.
    fn thermal(&self) -> Option<Thermal> {
        let zones = entries(&self.root.join("sys/class/thermal"), "thermal_zone");
        zones.iter().filter_map(|zone| zone_thermal(zone)).max()
    }

    fn busy_percent(&self) -> Option<u8> {
        let now = ticks(&self.root)?;
        let before = self.latest.locked().replace(now)?;
        let [total, idle, own] = [(now.total, before.total), (now.idle, before.idle), (now.own, before.own)]
            .map(|(now, before)| now.saturating_sub(before));
        let others = total.saturating_sub(idle).saturating_sub(own);
        others.saturating_mul(100).checked_div(total).and_then(|percent| u8::try_from(percent).ok())
    }

    fn is_metered(&self) -> Option<bool> {
        let now_ms = self.clock.now_ms();
        let mut latest = self.metered.locked();
        match *latest {
            Some((at_ms, metered)) if now_ms.saturating_sub(at_ms) < METERED_EVERY_MS => metered,
            _ => latest.insert((now_ms, asked_metered(&self.ask_metered))).1,
        }
    }
}

/// See proc(5): `/proc/stat` counts user, nice, system, idle, iowait, irq, softirq and steal, and the time of
/// guests once more in user and nice; `/proc/self/stat` has user and system time as its fields 14 and 15.
fn ticks(root: &Path) -> Option<Ticks> {
    let all = text(root, "proc/stat")?;
    let all: Vec<u64> = all.lines().next()?.split_whitespace().skip(1).take(8).map_while(|n| n.parse().ok()).collect();
    let own = text(root, "proc/self/stat")?;
    // The second field is the program's name, in which there may be spaces and parentheses.
    let (_, own) = own.rsplit_once(')')?;
    let own: Option<Vec<u64>> = own.split_whitespace().skip(11).take(2).map(|number| number.parse().ok()).collect();
    let idle = all.get(3)?.saturating_add(*all.get(4)?);
    Some(Ticks { total: all.iter().sum(), idle, own: own?.iter().sum() })
}

/// NetworkManager's `NMMetered`: 1 and 3 are yes and probably, 2 and 4 no and probably not, 0 unknown. busctl prints it
/// after its type: `u 4`.
fn asked_metered(line: &[String]) -> Option<bool> {
    let (program, arguments) = line.split_first()?;
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    match String::from_utf8(output.stdout).ok()?.trim() {
        "u 1" | "u 3" => Some(true),
        "u 2" | "u 4" => Some(false),
        _ => None,
    }
}

/// How warm a zone is beside its trip points: at `passive` ones the system slows down, at `hot` and `critical` ones it
/// is about to switch off. `None` without trip points.
fn zone_thermal(zone: &Path) -> Option<Thermal> {
    let now = number(zone, "temp")?;
    let trips = (0..).map_while(|trip| {
        let kind = text(zone, &format!("trip_point_{trip}_type"))?;
        Some((kind, number(zone, &format!("trip_point_{trip}_temp"))))
    });
    let (mut slows, mut ends) = (None::<i64>, None::<i64>);
    for (kind, at) in trips {
        let Some(at) = at.filter(|at| TRIPS.contains(at)) else { continue };
        let lowest = match kind.as_str() {
            "passive" => &mut slows,
            "hot" | "critical" => &mut ends,
            _ => continue,
        };
        *lowest = Some(lowest.map_or(at, |lowest| lowest.min(at)));
    }
    let ends = ends.or_else(|| slows.map(|_| i64::MAX))?;
    let slows = slows.unwrap_or(ends - NEAR);
    Some(match now {
        now if now >= ends => Thermal::Severe,
        now if now >= slows => Thermal::Moderate,
        now if now >= slows - NEAR => Thermal::Light,
        _ => Thermal::None,
    })
}

/// The entries of a folder whose names begin with this, in no order; none if there is no such folder.
fn entries(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = all.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    named.map(|entry| entry.path()).collect()
}

fn text(folder: &Path, file: &str) -> Option<String> {
    fs::read_to_string(folder.join(file)).ok().map(|text| text.trim().to_owned())
}

fn number(folder: &Path, file: &str) -> Option<i64> {
    text(folder, file)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::super::hand::Hand;
    use super::*;

    /// A machine of these files, whose NetworkManager prints this.
    fn machine(files: &[(&str, &str)], prints: &str) -> (tempfile::TempDir, Arc<Hand>, LinuxDevice) {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), files);
        let clock = Arc::new(Hand::default());
        let ask = ["echo", prints].map(str::to_owned).to_vec();
        let device = LinuxDevice::at(root.path(), ask, Arc::clone(&clock) as Arc<dyn Clock>);
        (root, clock, device)
    }

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    #[test]
    fn a_server_says_nothing_that_hinders() {
        let (_root, _, device) = machine(&[], "");
        assert_eq!(device.read(), Device::default());
    }

    #[test]
    fn power_is_that_of_the_machine_and_not_of_its_mouse() {
        let mouse = [
            ("sys/class/power_supply/mouse/type", "Battery"),
            ("sys/class/power_supply/mouse/scope", "Device"),
            ("sys/class/power_supply/mouse/capacity", "90"),
            ("sys/class/power_supply/mouse/status", "Full"),
        ];
        let read = |files: &[(&str, &str)]| machine(&[&mouse[..], files].concat(), "").2.read();
        let power = |files: &[(&str, &str)]| {
            let Device { charging, battery_percent, .. } = read(files);
            (charging, battery_percent)
        };
        let battery = |status| {
            [
                ("sys/class/power_supply/BAT0/type", "Battery"),
                ("sys/class/power_supply/BAT0/capacity", "41"),
                ("sys/class/power_supply/BAT0/status", status),
            ]
        };
        let mains =
            |online| [("sys/class/power_supply/AC/type", "Mains"), ("sys/class/power_supply/AC/online", online)];
        assert_eq!(power(&[]), (None, None));
        assert_eq!(power(&mains("0")), (Some(false), None));
        assert_eq!(power(&battery("Discharging")), (Some(false), Some(41)));
        assert_eq!(power(&battery("Not charging")), (Some(true), Some(41)));
        assert_eq!(power(&battery("Unknown")), (None, Some(41)));
        assert_eq!(power(&[&battery("Discharging")[..], &mains("1")].concat()), (Some(true), Some(41)));
    }

    #[test]
    fn heat_is_compared_with_the_temperatures_at_which_the_system_acts() {
        let thermal = |temp: &str, trips: &[(&str, &str)]| {
            let zone = "sys/class/thermal/thermal_zone1";
            let mut files = vec![(format!("{zone}/temp"), temp.to_owned())];
            for (trip, (kind, at)) in trips.iter().enumerate() {
                files.push((format!("{zone}/trip_point_{trip}_type"), (*kind).to_owned()));
                files.push((format!("{zone}/trip_point_{trip}_temp"), (*at).to_owned()));
            }
            let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
            machine(&files, "").2.read().thermal
        };
        let trips = [("active", "40000"), ("passive", "80000"), ("critical", "105000")];
        for (temp, warm) in [
            ("69999", Thermal::None),
            ("70000", Thermal::Light),
            ("80000", Thermal::Moderate),
            ("105000", Thermal::Severe),
        ] {
            assert_eq!(thermal(temp, &trips), Some(warm), "{temp}");
        }
        assert_eq!(thermal("96000", &[("critical", "105000")]), Some(Thermal::Moderate));
        assert_eq!(thermal("90000", &[("passive", "80000")]), Some(Thermal::Moderate));
        assert_eq!(thermal("90000", &[("passive", "-274000"), ("hot", "0")]), None);
        assert_eq!(thermal("not a number", &trips), None);
    }

    #[test]
    fn other_programs_are_busy_and_the_client_itself_is_not() {
        let (root, _, device) = machine(
            &[
                ("proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 2"),
                ("proc/self/stat", "7 (tributary (a) b) S 1 1 1 0 -1 0 0 0 0 0 50 50 0 0 20"),
            ],
            "",
        );
        assert_eq!(device.read().busy_percent, None, "no time has passed");
        write(
            root.path(),
            &[
                ("proc/stat", "cpu  400 0 200 1000 200 0 0 0 300 0"),
                ("proc/self/stat", "7 (tributary (a) b) S 1 1 1 0 -1 0 0 0 0 0 150 100 0 0 20"),
            ],
        );
        // 800 ticks passed: 400 idle, 150 of this process, and 250 of others.
        assert_eq!(device.read().busy_percent, Some(31));
        write(root.path(), &[("proc/stat", "cpu  what is this")]);
        assert_eq!(device.read().busy_percent, None);
    }

    #[test]
    fn network_manager_is_asked_twice_a_minute() {
        let read = |prints| machine(&[], prints).2.read().metered;
        let answers = ["u 0", "u 1", "u 2", "u 3", "u 4", "Failed to get property"].map(read);
        assert_eq!(answers, [None, Some(true), Some(false), Some(true), Some(false), None]);
        let (_root, clock, mut device) = machine(&[], "u 1");
        assert_eq!(device.read().metered, Some(true));
        device.ask_metered = vec!["there-is-no-such-program".to_owned()];
        clock.0.store(29_999, Ordering::SeqCst);
        assert_eq!(device.read().metered, Some(true));
        clock.0.store(30_000, Ordering::SeqCst);
        assert_eq!(device.read().metered, None);
    }
}
