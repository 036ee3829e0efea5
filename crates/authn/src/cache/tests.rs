use rstest::rstest;

use super::*;

const TTL: Duration = Duration::from_secs(10);

fn cache() -> TokenCache {
    TokenCache::new(64, TTL, [7; 32])
}

fn token(text: &str) -> Redacted<String> {
    Redacted::new(text.to_owned())
}

fn user(name: &str) -> Arc<UserInfo> {
    Arc::new(UserInfo {
        username: name.to_owned(),
        ..UserInfo::default()
    })
}

/// A JWT with these claims and no signature worth the name.
fn jwt(claims: &str) -> String {
    format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

/// How long a token is remembered when it is stored at `1000` on the wall clock.
fn kept(text: &str) -> Duration {
    let (cache, now, token) = (cache(), Instant::now(), token(text));
    let key = cache.key("c", &token);
    cache.accept(key, &token, user("alice"), now, at(1000));
    let mut kept = Duration::ZERO;
    while cache.get(&key, now + kept).is_some() {
        kept += Duration::from_millis(500);
    }
    kept
}

#[rstest]
#[case("opaque", TTL)]
#[case(&jwt(r#"{"exp":2000}"#), TTL)]
#[case(&jwt(r#"{"exp":1003}"#), Duration::from_secs(3))]
#[case(&jwt(r#"{"exp":1003.5}"#), Duration::from_millis(3500))]
#[case(&jwt(r#"{"exp":1000}"#), Duration::ZERO)]
#[case(&jwt(r#"{"exp":1}"#), Duration::ZERO)]
#[case(&jwt(r#"{"exp":"1003"}"#), TTL)]
#[case(&jwt(r#"{"exp":-1}"#), TTL)]
#[case(&jwt(r#"{"exp":1e300}"#), TTL)]
#[case(&jwt("{}"), TTL)]
#[case("a.b.c", TTL)]
#[case(&format!("{}.x", jwt(r#"{"exp":1003}"#)), TTL)]
fn a_user_is_remembered_for_the_ttl_or_until_the_token_expires(
    #[case] text: &str,
    #[case] expected: Duration,
) {
    assert_eq!(kept(text), expected);
}

#[test]
fn a_token_is_known_at_its_own_cluster_only() {
    let (cache, now, alices) = (cache(), Instant::now(), token("t"));
    let key = cache.key("a", &alices);
    cache.accept(key, &alices, user("alice"), now, at(0));
    assert_eq!(cache.get(&key, now), Some(Remembered::User(user("alice"))));
    assert_eq!(cache.get(&cache.key("b", &alices), now), None);
    assert_eq!(cache.get(&cache.key("a", &token("T")), now), None);
}

/// With joined strings, cluster `a` + token `bc` would be cluster `ab` + token `c`.
#[test]
fn attack_the_parts_of_a_key_cannot_be_shifted() {
    let cache = cache();
    assert_ne!(cache.key("a", &token("bc")), cache.key("ab", &token("c")));
    assert_ne!(cache.key("", &token("abc")), cache.key("abc", &token("")));
}

#[test]
fn the_salt_makes_keys_of_two_processes_differ() {
    let other = TokenCache::new(64, TTL, [8; 32]);
    assert_ne!(cache().key("a", &token("t")), other.key("a", &token("t")));
}

#[test]
fn attack_a_revoked_token_in_a_loop_costs_one_review_per_second() {
    let (cache, now, revoked) = (cache(), Instant::now(), token("t"));
    let key = cache.key("c", &revoked);
    let mut reviews = 0;
    for millis in 0..3000 {
        let now = now + Duration::from_millis(millis);
        if cache.get(&key, now).is_none() {
            reviews += 1;
            cache.reject(key, now);
        }
    }
    assert_eq!(reviews, 3);
}

#[test]
fn a_later_answer_replaces_an_earlier_one() {
    let (cache, now, token) = (cache(), Instant::now(), token("t"));
    let key = cache.key("c", &token);
    cache.reject(key, now);
    assert_eq!(cache.get(&key, now), Some(Remembered::Rejected));
    cache.accept(key, &token, user("alice"), now, at(0));
    assert_eq!(cache.get(&key, now), Some(Remembered::User(user("alice"))));
    cache.reject(key, now);
    assert_eq!(cache.get(&key, now), Some(Remembered::Rejected));
    assert_eq!(cache.get(&key, now + REJECTED_TTL), None);
}

#[test]
fn attack_a_flood_of_made_up_tokens_pushes_out_no_user() {
    let (cache, now, real) = (cache(), Instant::now(), token("real"));
    let key = cache.key("c", &real);
    cache.accept(key, &real, user("alice"), now, at(0));
    for i in 0..10_000 {
        cache.reject(cache.key("c", &token(&i.to_string())), now);
    }
    assert_eq!(cache.get(&key, now), Some(Remembered::User(user("alice"))));
}

#[test]
fn debug_shows_neither_tokens_nor_the_salt() {
    let (cache, now, token) = (cache(), Instant::now(), token("canary"));
    cache.accept(cache.key("c", &token), &token, user("alice"), now, at(0));
    let shown = format!("{cache:?}");
    assert!(
        !shown.contains("canary") && !shown.contains("7, 7"),
        "{shown}"
    );
}

fn key(cluster: &str, name: &str, verb: &str) -> DecisionKey {
    let info = portcullis_core::RequestInfo {
        verb: verb.to_owned(),
        ..Default::default()
    };
    DecisionKey {
        cluster: cluster.to_owned(),
        check: AccessCheck::of_request(user(name), &info),
    }
}

fn verdict(allowed: bool, evaluation_error: &str) -> Arc<Verdict> {
    Arc::new(Verdict {
        allowed,
        evaluation_error: evaluation_error.to_owned(),
        ..Verdict::default()
    })
}

#[test]
fn decisions_are_kept_by_cluster_user_and_question() {
    let (cache, now) = (DecisionCache::new(64, TTL, TTL / 2), Instant::now());
    cache.insert(key("c", "alice", "get"), verdict(true, ""), now);
    assert_eq!(
        cache.get(&key("c", "alice", "get"), now),
        Some(verdict(true, ""))
    );
    for other in [
        key("d", "alice", "get"),
        key("c", "bob", "get"),
        key("c", "alice", "list"),
    ] {
        assert_eq!(cache.get(&other, now), None);
    }
}

#[rstest]
#[case(true, "", TTL)]
#[case(true, "one rule was unreadable", TTL)]
#[case(false, "", TTL / 2)]
#[case(false, "webhook timed out", Duration::ZERO)]
fn a_no_out_of_failure_is_not_kept(
    #[case] allowed: bool,
    #[case] error: &str,
    #[case] kept: Duration,
) {
    let (cache, now) = (DecisionCache::new(64, TTL, TTL / 2), Instant::now());
    cache.insert(key("c", "alice", "get"), verdict(allowed, error), now);
    let just_before = kept.saturating_sub(Duration::from_nanos(1));
    let found = cache
        .get(&key("c", "alice", "get"), now + just_before)
        .is_some();
    assert_eq!(found, !kept.is_zero());
    assert_eq!(cache.get(&key("c", "alice", "get"), now + kept), None);
}
