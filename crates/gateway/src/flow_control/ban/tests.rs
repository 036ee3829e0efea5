use super::*;

const MINUTE: Duration = Duration::from_secs(60);
const POLICY: BanPolicy = BanPolicy {
    max_failed_logins: 3,
    ban_duration: Some(Duration::from_secs(300)),
    exponential_backoff: false,
};

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Fails until banned; returns the number of failures and the length of the ban.
fn ban(
    bans: &Bans<u8>,
    address: &str,
    policy: &BanPolicy,
    now: Instant,
) -> (u32, Option<Duration>) {
    for failure in 1.. {
        if let Recorded::Banned(banned) = bans.failed(&0, ip(address), policy, now) {
            return (failure, banned.remaining);
        }
    }
    unreachable!()
}

#[test]
fn the_last_tolerated_failure_begins_the_ban_and_time_ends_it() {
    let (bans, now) = (Bans::new(8), Instant::now());
    for _ in 1..POLICY.max_failed_logins {
        assert_eq!(
            bans.failed(&0, ip("10.0.0.1"), &POLICY, now),
            Recorded::Counted
        );
        assert_eq!(bans.check(&0, ip("10.0.0.1"), now), None);
    }
    assert_eq!(ban(&bans, "10.0.0.1", &POLICY, now), (1, Some(5 * MINUTE)));
    let later = now + 2 * MINUTE;
    assert_eq!(
        bans.check(&0, ip("10.0.0.1"), later),
        Some(Banned {
            remaining: Some(3 * MINUTE)
        })
    );
    assert_eq!(bans.check(&0, ip("10.0.0.1"), now + 5 * MINUTE), None);
    // And the count begins anew.
    assert_eq!(ban(&bans, "10.0.0.1", &POLICY, now + 5 * MINUTE).0, 3);
}

#[test]
fn a_ban_is_for_one_client_at_one_cluster() {
    let (bans, now) = (Bans::new(8), Instant::now());
    ban(&bans, "10.0.0.1", &POLICY, now);
    assert!(bans.check(&0, ip("10.0.0.1"), now).is_some());
    assert_eq!(bans.check(&1, ip("10.0.0.1"), now), None);
    assert_eq!(bans.check(&0, ip("10.0.0.2"), now), None);
}

#[test]
fn failures_further_apart_than_the_window_are_not_added_up() {
    let (bans, now) = (Bans::new(8), Instant::now());
    for hour in 0..20 {
        let now = now + hour * (WINDOW + MINUTE);
        assert_eq!(
            bans.failed(&0, ip("10.0.0.1"), &POLICY, now),
            Recorded::Counted
        );
    }
}

#[test]
fn no_duration_is_forever() {
    let (bans, now) = (Bans::new(8), Instant::now());
    let policy = BanPolicy {
        ban_duration: None,
        ..POLICY
    };
    assert_eq!(ban(&bans, "10.0.0.1", &policy, now), (3, None));
    let much_later = now + Duration::from_secs(365 * 24 * 3600);
    assert_eq!(
        bans.check(&0, ip("10.0.0.1"), much_later),
        Some(Banned { remaining: None })
    );
}

#[test]
fn zero_tolerated_failures_ban_at_the_first() {
    let policy = BanPolicy {
        max_failed_logins: 0,
        ..POLICY
    };
    assert_eq!(ban(&Bans::new(8), "10.0.0.1", &policy, Instant::now()).0, 1);
}

#[test]
fn backoff_doubles_up_to_a_day_and_is_forgotten_after_good_conduct() {
    let (bans, mut now) = (Bans::new(8), Instant::now());
    let policy = BanPolicy {
        exponential_backoff: true,
        ..POLICY
    };
    for expected in [5, 10, 20, 40, 80, 160, 320, 640, 1280, 24 * 60, 24 * 60] {
        let (_, length) = ban(&bans, "10.0.0.1", &policy, now);
        assert_eq!(length, Some(expected * MINUTE));
        now += length.unwrap();
    }
    now += 2 * LONGEST_BACKOFF;
    assert_eq!(ban(&bans, "10.0.0.1", &policy, now).1, Some(5 * MINUTE));
    let long = BanPolicy {
        ban_duration: Some(2 * LONGEST_BACKOFF),
        ..policy
    };
    assert_eq!(
        ban(&bans, "10.0.0.2", &long, now).1,
        Some(2 * LONGEST_BACKOFF)
    );
}

#[test]
fn a_failure_during_the_ban_does_not_lengthen_it() {
    let (bans, now) = (Bans::new(8), Instant::now());
    ban(&bans, "10.0.0.1", &POLICY, now);
    let again = bans.failed(&0, ip("10.0.0.1"), &POLICY, now + MINUTE);
    assert_eq!(
        again,
        Recorded::Banned(Banned {
            remaining: Some(4 * MINUTE)
        })
    );
}

#[test]
fn attack_another_address_of_the_same_ipv6_network_is_the_same_client() {
    let (bans, now) = (Bans::new(8), Instant::now());
    ban(&bans, "2001:db8::1", &POLICY, now);
    assert!(bans.check(&0, ip("2001:db8::ffff:1"), now).is_some());
    assert_eq!(bans.check(&0, ip("2001:db8:0:1::1"), now), None);
    ban(&bans, "10.0.0.1", &POLICY, now);
    assert!(bans.check(&0, ip("::ffff:10.0.0.1"), now).is_some());
}

#[test]
fn attack_a_flood_of_other_addresses_lifts_no_ban() {
    let (bans, now) = (Bans::new(64), Instant::now());
    ban(&bans, "10.0.0.1", &POLICY, now);
    for i in 0..10_000_u32 {
        bans.failed(&0, IpAddr::V4((0xc000_0000 + i).into()), &POLICY, now);
        assert!(bans.table.read().unwrap().records.len() <= 64);
    }
    assert!(bans.check(&0, ip("10.0.0.1"), now).is_some());
}

#[test]
fn attack_a_table_full_of_bans_keeps_them_all() {
    let (bans, now) = (Bans::new(4), Instant::now());
    for address in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"] {
        ban(&bans, address, &POLICY, now);
    }
    assert_eq!(
        bans.failed(&0, ip("10.0.0.5"), &POLICY, now),
        Recorded::TableFull
    );
    for address in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"] {
        assert!(bans.check(&0, ip(address), now).is_some());
    }
    // Bans that are over make room.
    assert_eq!(
        bans.failed(&0, ip("10.0.0.5"), &POLICY, now + 5 * MINUTE),
        Recorded::Counted
    );
}
