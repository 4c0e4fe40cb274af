//! Populations, tokens, clients.

use std::collections::BTreeMap;

use tributary_protocol::abilities::{Abilities, Ability};
use tributary_protocol::device::Attributes;
use tributary_protocol::id::{Name, TokenId};
use tributary_protocol::operator::{Account, Client, ClientOrder, Order, Population, Session, Token};
use tributary_protocol::state::{AbandonReason, AssignmentState, Role};
use tributary_server::db::{ClientsList, Db, DbError, Enrolment, NewSession, Software};

use super::stored::{
    assigned, client_id, evaluation, job_id, name, population, report, secret, start_round, store_client, token,
    traffic, training,
};

pub(super) async fn a_population_is_stored_once_and_listed_by_name(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    for text in ["c", "a", "b"] {
        tx.insert_population(&name(text), 7).await.unwrap();
    }
    tx.commit().await.unwrap();
    let twice = db.begin().await.unwrap().insert_population(&name("a"), 8).await;
    assert!(matches!(twice, Err(DbError::Duplicate)), "{twice:?}");
    let mut tx = db.read().await.unwrap();
    let expected = Population { name: name("a"), clients: 0, created_at_ms: 7, online: 0, working: 0 };
    assert_eq!(tx.population(&name("a")).await.unwrap(), Some(expected));
    assert_eq!(tx.population(&name("d")).await.unwrap(), None);
    let mut names = Vec::new();
    for (after, limit) in [("", 2), ("b", 2), ("c", 2)] {
        let page = tx.populations(None, after, limit).await.unwrap();
        names.push(page.into_iter().map(|population| population.name.to_string()).collect::<Vec<_>>());
    }
    assert_eq!(names, [vec!["a", "b"], vec!["c"], vec![]]);
}

pub(super) async fn a_token_works_until_it_expires_or_is_revoked(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let (short, long) = (token(1, Some("people"), Some(50)), token(2, Some("people"), None));
    tx.insert_token(&short, &secret(1)).await.unwrap();
    tx.insert_token(&long, &secret(2)).await.unwrap();
    assert_eq!(tx.working_token(&secret(1), 49).await.unwrap(), Some(short));
    assert_eq!(tx.working_token(&secret(1), 50).await.unwrap(), None);
    assert_eq!(tx.working_token(&secret(2), i64::MAX).await.unwrap(), Some(long.clone()));
    assert_eq!(tx.working_token(&secret(3), 0).await.unwrap(), None);
    assert!(tx.revoke_token(long.id, 60).await.unwrap());
    assert!(tx.revoke_token(long.id, 70).await.unwrap(), "twice is no error");
    assert!(!tx.revoke_token(TokenId::from_random([9; 16]), 70).await.unwrap());
    assert_eq!(tx.working_token(&secret(2), 0).await.unwrap(), None);
    let listed = tx.tokens(None, "", 10).await.unwrap();
    assert!(listed.windows(2).all(|pair| pair[0].id.to_string() < pair[1].id.to_string()));
    let revoked = listed.iter().find(|token| token.id == long.id).unwrap();
    assert_eq!(revoked.revoked_at_ms, Some(60), "the first time counts");
    assert_eq!(tx.tokens(None, &listed[0].id.to_string(), 1).await.unwrap(), listed[1..2]);
    let twice = tx.insert_token(&token(3, None, None), &secret(2)).await;
    assert!(matches!(twice, Err(DbError::Duplicate)), "a revoked secret stays taken: {twice:?}");
}

pub(super) async fn tokens_of_admins_are_told_from_all_others(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let viewer = Token { role: Some(Role::Viewer), ..token(3, None, None) };
    tx.insert_token(&viewer, &secret(3)).await.unwrap();
    let local = Token { population: Some(name("people")), ..token(4, None, None) };
    tx.insert_token(&local, &secret(4)).await.unwrap();
    assert!(!tx.has_admin_token(0).await.unwrap(), "of the whole deployment");
    tx.insert_token(&token(1, None, Some(50)), &secret(1)).await.unwrap();
    assert!(tx.has_admin_token(49).await.unwrap());
    assert!(!tx.has_admin_token(50).await.unwrap());
    let lasting = token(2, None, None);
    tx.insert_token(&lasting, &secret(2)).await.unwrap();
    assert!(tx.has_admin_token(50).await.unwrap());
    tx.revoke_token(lasting.id, 60).await.unwrap();
    assert!(!tx.has_admin_token(50).await.unwrap());
}

/// Goal: uses are counted exactly, whichever limit stops them, and nothing is counted that was refused.
pub(super) async fn enrolments_are_counted_up_to_the_limits_of_their_token(db: &Db) {
    population(db).await;
    let limited = Token { uses_max: Some(5), per_minute_max: Some(2), ..token(1, Some("people"), Some(1_000_000)) };
    let mut tx = db.begin().await.unwrap();
    tx.insert_token(&limited, &secret(1)).await.unwrap();
    let mut counted = Vec::new();
    for (now_ms, expected) in [
        (100_000, Some(1)),
        (130_000, Some(2)),
        (159_999, None),
        (160_000, Some(3)),
        (150_000, Some(4)), // The clock was set back: a minute that begins in the future is none.
        (220_000, Some(5)),
    ] {
        match tx.count_enrolment(limited.id, now_ms).await.unwrap() {
            Enrolment::Counted(token) => counted.push((now_ms, Some(token.uses))),
            Enrolment::TooSoon { per_minute_max, retry_after_ms } => {
                assert_eq!((per_minute_max, retry_after_ms), (2, 1), "at {now_ms}");
                counted.push((now_ms, None));
            }
            other => panic!("at {now_ms}: {other:?}"),
        }
        assert_eq!(*counted.last().unwrap(), (now_ms, expected));
    }
    assert_eq!(tx.count_enrolment(limited.id, 900_000).await.unwrap(), Enrolment::UsedUp { uses_max: 5 });
    assert_eq!(tx.count_enrolment(limited.id, 1_000_000).await.unwrap(), Enrolment::Unknown, "expired");
    let stored = tx.token(limited.id).await.unwrap().unwrap();
    assert_eq!((stored.uses, stored.last_used_at_ms), (5, Some(220_000)));
    let operator = token(2, None, None);
    tx.insert_token(&operator, &secret(2)).await.unwrap();
    assert_eq!(tx.count_enrolment(operator.id, 0).await.unwrap(), Enrolment::Unknown, "an operator's");
    assert_eq!(tx.count_enrolment(TokenId::from_random([9; 16]), 0).await.unwrap(), Enrolment::Unknown);
}

pub(super) async fn the_last_use_of_a_token_only_moves_when_it_is_old(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let token = token(1, None, None);
    tx.insert_token(&token, &secret(1)).await.unwrap();
    for (unless_since_ms, now_ms, known) in [(0, 10, 10), (10, 20, 10), (11, 30, 30)] {
        tx.token_used(token.id, unless_since_ms, now_ms).await.unwrap();
        assert_eq!(tx.token(token.id).await.unwrap().unwrap().last_used_at_ms, Some(known));
    }
    assert!(tx.token_works(token.id, 0).await.unwrap());
    tx.revoke_token(token.id, 40).await.unwrap();
    assert!(!tx.token_works(token.id, 0).await.unwrap());
}

fn account(text: &str, population: Option<&str>) -> Account {
    Account {
        name: name(text),
        role: Role::Operator,
        population: population.map(name),
        created_at_ms: 5,
        password_at_ms: 5,
        revoked_at_ms: None,
    }
}

pub(super) async fn accounts_are_stored_once_and_listed_by_name(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let (ada, eve) = (account("ada", None), account("eve", Some("people")));
    tx.insert_account(&eve, "hash of eve").await.unwrap();
    tx.insert_account(&ada, "hash of ada").await.unwrap();
    assert_eq!(tx.accounts(None, "", 10).await.unwrap(), [ada.clone(), eve.clone()]);
    assert_eq!(tx.accounts(Some(&name("people")), "", 10).await.unwrap(), std::slice::from_ref(&eve));
    assert_eq!(tx.accounts(None, "ada", 10).await.unwrap(), std::slice::from_ref(&eve));
    assert_eq!(tx.account(&name("ada")).await.unwrap(), Some(ada.clone()));
    assert_eq!(tx.password(&name("ada")).await.unwrap().as_deref(), Some("hash of ada"));
    assert!(tx.set_password(&name("ada"), "another", 9).await.unwrap());
    assert_eq!(tx.password(&name("ada")).await.unwrap().as_deref(), Some("another"));
    tx.revoke_account(&name("ada"), 10).await.unwrap();
    tx.revoke_account(&name("ada"), 11).await.unwrap();
    assert_eq!(tx.account(&name("ada")).await.unwrap().unwrap().revoked_at_ms, Some(10), "the first time counts");
    assert_eq!(tx.password(&name("ada")).await.unwrap(), None);
    assert!(!tx.set_password(&name("ada"), "again", 12).await.unwrap());
    let twice = tx.insert_account(&ada, "x").await;
    assert!(matches!(twice, Err(DbError::Duplicate)), "a revoked name stays taken: {twice:?}");
}

fn new(account: &Name, session: Session) -> NewSession<'_> {
    let name = account.as_str();
    NewSession { account: Some(account), actor: "account:eve", name, role: None, population: None, session }
}

pub(super) async fn a_session_works_until_it_expires_idles_or_its_account_is_revoked(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let eve = account("eve", Some("people"));
    tx.insert_account(&eve, "hash").await.unwrap();
    let session = |created_at_ms| Session {
        address: Some("192.0.2.1".into()),
        created_at_ms,
        last_used_at_ms: created_at_ms,
        expires_at_ms: created_at_ms + 100,
    };
    for number in 1..=4 {
        tx.insert_session(&new(&eve.name, session(i64::from(number))), &secret(number)).await.unwrap();
    }
    let found = tx.session(&secret(1), 1, 100).await.unwrap().unwrap();
    assert_eq!((found.actor.as_str(), found.name.as_str()), ("account:eve", "eve"));
    assert_eq!((found.role, found.expires_at_ms), (Role::Operator, 101));
    assert_eq!(found.population.map(|population| population.0), Some(name("people")));
    assert_eq!(tx.session(&secret(1), 1, 101).await.unwrap(), None, "expired");
    assert_eq!(tx.session(&secret(1), 2, 50).await.unwrap(), None, "idle");
    tx.session_used(&secret(1), 50, 60).await.unwrap();
    assert_eq!(tx.session(&secret(1), 60, 70).await.unwrap().unwrap().last_used_at_ms, 60);
    let began = |sessions: Vec<Session>| sessions.iter().map(|session| session.created_at_ms).collect::<Vec<_>>();
    assert_eq!(began(tx.sessions("account:eve", 0, 10).await.unwrap()), [4, 3, 2, 1]);
    tx.keep_newest_sessions("account:eve", 2, 0).await.unwrap();
    assert_eq!(began(tx.sessions("account:eve", 0, 10).await.unwrap()), [4, 3]);
    tx.delete_session(&secret(4)).await.unwrap();
    tx.revoke_account(&eve.name, 9).await.unwrap();
    assert_eq!(tx.session(&secret(3), 0, 9).await.unwrap(), None, "revoked");
    assert_eq!(tx.delete_sessions("account:eve").await.unwrap(), 1);
    // Of a person without an account, the session says what the person may do.
    let (mine, role) = (name("people"), Some(Role::Admin));
    let person =
        NewSession { account: None, actor: "oidc:7", name: "Ada", role, population: Some(&mine), session: session(1) };
    tx.insert_session(&person, &secret(1)).await.unwrap();
    let found = tx.session(&secret(1), 0, 9).await.unwrap().unwrap();
    let population = found.population.map(|text| text.0);
    assert_eq!((found.actor.as_str(), Some(found.role), population.as_ref()), ("oidc:7", role, Some(&mine)));
    assert_eq!(tx.delete_expired_sessions(101).await.unwrap(), 0);
    assert_eq!(tx.delete_expired_sessions(102).await.unwrap(), 1);
}

pub(super) async fn clients_are_numbered_and_known_by_their_secret(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    tx.insert_population(&name("others"), 1).await.unwrap();
    let other = token(101, Some("others"), None);
    tx.insert_token(&other, &secret(101)).await.unwrap();
    store_client(&mut tx, 9, "others", &other).await;
    let known = tx.client_by_secret(&secret(2)).await.unwrap().unwrap().known.client.clone();
    assert_eq!((known.id, known.number, known.population.as_str()), (client_id(2), 2, "people"));
    let first = tx.client_by_secret(&secret(9)).await.unwrap().unwrap().known.client.clone();
    assert_eq!(first.number, 1, "each population counts for itself");
    assert!(tx.client_by_secret(&secret(50)).await.unwrap().is_none());
    assert_eq!(tx.population(&name("people")).await.unwrap().unwrap().clients, 3);
    assert_eq!(tx.next_client_number(&name("people")).await.unwrap(), 4);
}

pub(super) async fn a_client_is_what_it_said_last(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let said = BTreeMap::from([("platform".to_owned(), "an \"ünusual\" one".to_owned())]);
    let said: Attributes = said.try_into().unwrap();
    let kotlin = Some(name("kotlin"));
    let (version, abilities) = (Some("2.3".to_owned()), Abilities::FIRST.without(Ability::Lstm));
    let software = Software { kind: kotlin.clone(), version, abilities };
    tx.client_seen(client_id(1), &said, &software, (1 << 40, &[name("typing")]), 77).await.unwrap();
    assert_eq!(tx.client(client_id(1)).await.unwrap().unwrap().sdk, kotlin);
    let known = tx.client_by_secret(&secret(1)).await.unwrap().unwrap().known.client.clone();
    assert_eq!((&known.attributes.0, known.examples, known.last_seen_at_ms), (&said, 1 << 40, 77));
    assert_eq!((known.created_at_ms, known.software()), (20, software.clone()));
    let other = tx.client_by_secret(&secret(2)).await.unwrap().unwrap().known.client.clone();
    assert_eq!((other.examples, other.last_seen_at_ms, other.software()), (0, 20, Software::default()));
    let counted = tx.software(&name("people")).await.unwrap();
    assert_eq!(counted, [(Software::default(), 2), (software, 1)], "of three clients, one has told");
}

pub(super) async fn clients_are_listed_with_how_their_work_ended(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    assert!(tx.accept_report(assigned(training(1), 1), &report(1, 1.0, None), 50).await.unwrap().is_some());
    for (client, state) in [(2, AssignmentState::Rejected), (3, AssignmentState::Expired)] {
        assert!(
            tx.end_assignment(assigned(training(1), client), state, None, traffic(0, 0), 50).await.unwrap().is_some()
        );
    }
    start_round(&mut tx, training(2), 2).await;
    assert!(
        tx.end_assignment(assigned(training(2), 2), AssignmentState::Failed, None, traffic(0, 0), 60)
            .await
            .unwrap()
            .is_some()
    );
    let people = name("people");
    let (order, direction) = (ClientOrder::Number, Order::Asc);
    let list = ClientsList { population: &people, search: "", order, direction, after: None, limit: 10 };
    let counts = |clients: Vec<(Client, (i64, u64))>| -> Vec<_> {
        let counts = |(client, _): &(Client, _)| (client.number, client.reported, client.expired, client.failed);
        clients.iter().map(counts).collect()
    };
    let all = tx.clients(&list).await.unwrap();
    let first = &all[0].0;
    assert_eq!((first.rejected, first.bytes_up, first.bytes_down, first.work_ms_mean), (0, 7, 9, Some(12)));
    assert_eq!((all[1].0.rejected, all[1].0.work_ms_mean), (1, None));
    assert_eq!(tx.client(first.id).await.unwrap().as_ref(), Some(first));
    assert_eq!(tx.client(client_id(9)).await.unwrap(), None);
    assert_eq!(counts(all), [(1, 1, 0, 0), (2, 0, 0, 2), (3, 0, 1, 0)]);
    let second = ClientsList { after: Some((i64::MIN, 1)), limit: 1, ..list };
    assert_eq!(counts(tx.clients(&second).await.unwrap()), [(2, 0, 0, 2)]);
    let nobody = name("nobody");
    assert!(tx.clients(&ClientsList { population: &nobody, ..list }).await.unwrap().is_empty());
}

/// Goal: each order holds each client once, whatever the page size; a search finds ids, numbers and attributes.
pub(super) async fn clients_are_found_and_ordered(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    let ends = [(1, AssignmentState::Expired), (3, AssignmentState::Expired)];
    for (client, state) in ends {
        assert!(
            tx.end_assignment(assigned(training(1), client), state, None, traffic(0, 0), 50).await.unwrap().is_some()
        );
    }
    assert!(tx.accept_report(assigned(training(1), 2), &report(1, 1.0, None), 50).await.unwrap().is_some());
    let said = BTreeMap::from([("ram_class".to_owned(), "50%_Of".to_owned())]).try_into().unwrap();
    tx.client_seen(client_id(2), &said, &Software::default(), (1, &[]), 90).await.unwrap();
    tx.client_seen(client_id(3), &Attributes::default(), &Software::default(), (1, &[]), 70).await.unwrap();
    let people = name("people");
    let (asc, desc) = (Order::Asc, Order::Desc);
    for (order, direction, expected) in [
        (ClientOrder::Number, asc, [1, 2, 3]),
        (ClientOrder::Number, desc, [3, 2, 1]),
        (ClientOrder::LastSeen, desc, [2, 3, 1]),
        (ClientOrder::LastSeen, asc, [1, 3, 2]),
        (ClientOrder::Examples, desc, [2, 3, 1]),
        (ClientOrder::Reported, desc, [2, 1, 3]),
        (ClientOrder::Late, desc, [1, 3, 2]),
        (ClientOrder::Late, asc, [2, 1, 3]),
        (ClientOrder::Failed, desc, [1, 2, 3]),
        (ClientOrder::DropRate, desc, [1, 3, 2]),
        (ClientOrder::DropRate, asc, [2, 1, 3]),
        // Only client 2 has a work time: who has none is last in both directions.
        (ClientOrder::Work, desc, [2, 1, 3]),
        (ClientOrder::Work, asc, [2, 1, 3]),
        (ClientOrder::Up, desc, [2, 1, 3]),
    ] {
        for limit in 1..=4 {
            let (mut numbers, mut after) = (Vec::new(), None);
            loop {
                let list = ClientsList { population: &people, search: "", order, direction, after, limit };
                let page = tx.clients(&list).await.unwrap();
                numbers.extend(page.iter().map(|(client, _)| client.number));
                match page.last() {
                    Some((_, end)) => after = Some(*end),
                    None => break,
                }
            }
            assert_eq!(numbers, expected, "{order:?} {direction:?} in pages of {limit}");
        }
        for (search, found) in [
            ("RAM", vec![2]),
            ("50%_o", vec![2]),
            ("5%", vec![]),
            ("5_%", vec![]),
            ("!", vec![]),
            ("client_0303", vec![3]),
            ("client_03", vec![3]),
            ("nothing", vec![]),
        ] {
            let list = ClientsList { population: &people, search, order, direction, after: None, limit: 10 };
            let numbers: Vec<_> = tx.clients(&list).await.unwrap().iter().map(|(client, _)| client.number).collect();
            assert_eq!(numbers, found, "{search} by {order:?}");
        }
    }
}

pub(super) async fn last_rounds_count_training_only(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for (number, cohort) in [(1, 3), (2, 2), (3, 1)] {
        start_round(&mut tx, training(number), cohort).await;
        for client in 1..=cohort {
            let id = assigned(training(number), client);
            assert!(tx.end_assignment(id, AssignmentState::Expired, None, traffic(0, 0), 50).await.unwrap().is_some());
        }
    }
    start_round(&mut tx, evaluation(3), 3).await;
    let mut last = tx.last_rounds(job_id(1), 0).await.unwrap();
    last.sort_unstable();
    assert_eq!(last, [(client_id(1), 3), (client_id(2), 2), (client_id(3), 1)]);
    let mut last = tx.last_rounds(job_id(1), 2).await.unwrap();
    last.sort_unstable();
    assert_eq!(last, [(client_id(1), 3), (client_id(2), 2)]);
    assert!(tx.last_rounds(job_id(2), 0).await.unwrap().is_empty());
}

pub(super) async fn the_last_update_of_a_client_has_a_loss_and_may_have_been_dropped(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for (number, losses) in [(1, [Some(3.0), Some(4.0)]), (2, [Some(2.0), None])] {
        start_round(&mut tx, training(number), 2).await;
        for (client, loss) in (1..).zip(losses) {
            let id = assigned(training(number), client);
            match loss {
                Some(loss) => assert!(tx.accept_report(id, &report(1, loss, None), 50).await.unwrap().is_some()),
                None => {
                    let state = AssignmentState::Failed;
                    assert!(tx.end_assignment(id, state, None, traffic(0, 0), 50).await.unwrap().is_some());
                }
            }
        }
    }
    let mut reports = tx.last_reports(job_id(1)).await.unwrap();
    reports.sort_by_key(|(client, _)| *client);
    let facts = reports.iter().map(|(client, report)| (*client, report.loss, report.round)).collect::<Vec<_>>();
    assert_eq!(facts, [(client_id(1), 2.0, 2), (client_id(2), 4.0, 1)]);
    assert!(tx.abandon_round(training(2), AbandonReason::TooFewReports, 60).await.unwrap());
    let mut dropped = Vec::new();
    for client in 1..=3 {
        dropped.push(tx.dropped_round(job_id(1), client_id(client)).await.unwrap());
    }
    // The second client has reported in the first round only, which is open.
    assert_eq!(dropped, [Some(2), None, None]);
}
