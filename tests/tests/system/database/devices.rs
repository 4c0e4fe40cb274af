//! What clients authenticate with.

use tributary_protocol::device::Attributes;
use tributary_protocol::state::Standing;
use tributary_server::db::{CaRow, Db, ReEnrolment};

use super::stored::{client_id, name, population, secret, store_client, token};

pub(super) async fn a_next_secret_replaces_the_old_one_when_it_is_used(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let known = tx.client_by_secret(&secret(1)).await.unwrap().unwrap().known;
    assert_eq!((known.client.id, known.secret_sha256, known.secret_at_ms), (client_id(1), secret(1), 20));
    tx.set_next_secret(client_id(1), &secret(50)).await.unwrap();
    tx.set_next_secret(client_id(1), &secret(51)).await.unwrap();
    assert!(tx.client_by_secret(&secret(50)).await.unwrap().is_none(), "another one took its place");
    for hash in [secret(1), secret(51)] {
        assert_eq!(tx.client_by_secret(&hash).await.unwrap().unwrap().known.client.id, client_id(1));
    }
    assert!(!tx.use_next_secret(client_id(2), &secret(51), 70).await.unwrap(), "it is another client's");
    assert!(tx.use_next_secret(client_id(1), &secret(51), 70).await.unwrap());
    assert!(!tx.use_next_secret(client_id(1), &secret(51), 80).await.unwrap(), "it is in use");
    assert!(tx.client_by_secret(&secret(1)).await.unwrap().is_none());
    let known = tx.client_by_secret(&secret(51)).await.unwrap().unwrap().known;
    assert_eq!((known.secret_sha256, known.secret_at_ms), (secret(51), 70));
    assert_eq!(tx.known_client(client_id(2)).await.unwrap().unwrap().secret_sha256, secret(2));
    assert!(tx.known_client(client_id(50)).await.unwrap().is_none());
}

pub(super) async fn a_key_is_bound_once_and_known_when_its_client_is_excluded(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let until_ms = async |tx: &mut tributary_server::db::Tx| {
        tx.known_client(client_id(1)).await.unwrap().unwrap().certificate_until_ms
    };
    assert_eq!(until_ms(&mut tx).await, None);
    assert!(tx.bind_key(client_id(1), &secret(60), None).await.unwrap());
    assert_eq!(until_ms(&mut tx).await, None);
    assert!(tx.bind_key(client_id(1), &secret(60), Some(90)).await.unwrap(), "the same key again");
    assert!(tx.bind_key(client_id(1), &secret(60), None).await.unwrap());
    assert!(!tx.bind_key(client_id(1), &secret(61), Some(100)).await.unwrap(), "another key");
    assert_eq!(until_ms(&mut tx).await, Some(90));
    let people = name("people");
    assert_eq!(tx.barred_client(&people, &secret(60)).await.unwrap(), None, "it may take part");
    tx.change_standing(client_id(1), Standing::Quarantined, None, 30).await.unwrap();
    assert_eq!(tx.barred_client(&people, &secret(60)).await.unwrap(), Some((client_id(1), Standing::Quarantined)));
    assert_eq!(tx.barred_client(&people, &secret(61)).await.unwrap(), None);
    assert_eq!(tx.barred_client(&name("others"), &secret(60)).await.unwrap(), None);
}

pub(super) async fn a_client_that_enrols_again_keeps_its_id_unless_it_is_revoked(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    let other = token(101, Some("people"), None);
    tx.insert_token(&other, &secret(101)).await.unwrap();
    store_client(&mut tx, 9, "people", &other).await;
    tx.set_next_secret(client_id(9), &secret(52)).await.unwrap();
    let attributes: Attributes =
        std::collections::BTreeMap::from([("site".to_owned(), "north".to_owned())]).try_into().unwrap();
    let again = ReEnrolment {
        client: client_id(9),
        token: other.id,
        secret: secret(53),
        attributes: &attributes,
        granted: &attributes,
        consent: None,
        now_ms: 99,
    };
    assert!(tx.enrol_again(again).await.unwrap());
    for hash in [secret(9), secret(52)] {
        assert!(tx.client_by_secret(&hash).await.unwrap().is_none());
    }
    let known = tx.client_by_secret(&secret(53)).await.unwrap().unwrap().known;
    assert_eq!((known.client.id, known.client.number, known.secret_at_ms), (client_id(9), 4, 99));
    assert_eq!((&known.client.attributes.0, &known.client.granted.0), (&attributes, &attributes));
    tx.change_standing(client_id(9), Standing::Revoked, None, 100).await.unwrap();
    assert!(!tx.enrol_again(ReEnrolment { secret: secret(54), ..again }).await.unwrap());
    assert!(tx.client_by_secret(&secret(54)).await.unwrap().is_none());
}

pub(super) async fn a_population_has_one_ca_until_another_one_is_needed(db: &Db) {
    population(db).await;
    let ca = |byte: u8, expires_at_ms: i64| CaRow {
        certificate: vec![byte; 3],
        private_key: vec![byte; 5],
        created_at_ms: 1,
        expires_at_ms,
    };
    let mut tx = db.begin().await.unwrap();
    let people = name("people");
    assert_eq!(tx.population_ca(&people).await.unwrap(), None);
    tx.offer_population_ca(&people, &ca(1, 100), 50).await.unwrap();
    tx.offer_population_ca(&people, &ca(2, 200), 99).await.unwrap();
    assert_eq!(tx.population_ca(&people).await.unwrap(), Some(ca(1, 100)), "it lasts long enough");
    tx.offer_population_ca(&people, &ca(3, 300), 100).await.unwrap();
    assert_eq!(tx.population_ca(&people).await.unwrap(), Some(ca(3, 300)));
    assert!(!format!("{:?}", ca(7, 1)).contains("7, 7"), "no log has the key");
}
