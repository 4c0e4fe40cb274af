//! Small groups.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: RingArgs,
}

async fn row(arguments: &[&str], members: u16, codec: &str) -> Measured {
    let CommandLine { args } = CommandLine::parse_from(["ring"].iter().chain(arguments));
    measured(&args, members, 10_000, codec.parse().unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_have_the_direct_sum_over_every_kind_of_link() {
    for arguments in [&[][..], &["--plain"], &["--bandwidth", "1gbit"], &["--plain", "--bandwidth", "1gbit"]] {
        for (members, codec) in [(2, "f32"), (3, "int8"), (5, "f32"), (4, "grid")] {
            let measured = row(arguments, members, codec).await;
            assert!(measured.sha256_equal, "{arguments:?}, {members} members");
            let calls = measured.bytes_through_coordinator - measured.sum_bytes;
            assert!((500..10_000).contains(&calls), "{calls} bytes of calls of {members} members");
            let share = measured.bytes_sent_per_member as f64 / measured.ring_bytes();
            assert!((0.9..1.1).contains(&share), "{share} of the bytes of a ring of {members}");
        }
    }
}

#[test]
fn a_link_has_a_bandwidth_that_a_line_can_have() {
    assert_eq!(shape(parse_bandwidth("100mbit").unwrap()).bytes_per_s, 12.5e6);
    for text in ["", "100", "99kbit", "-1mbit"] {
        parse_bandwidth(text).unwrap_err();
    }
}
