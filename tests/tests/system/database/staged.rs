//! Bodies that are written chunk by chunk.

use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::id::AssignmentId;
use tributary_server::db::{Db, DbError, NewStaged, ObjectRow, StagedRow, Tx, chunk_name};

use super::stored::{assigned, knows_object, object, population, start_round, training};

const CHUNK: u64 = 10;

fn staged(id: &str, assignment: Option<AssignmentId>) -> NewStaged<'_> {
    let assignment = assignment.map(|assignment| (assignment, 0));
    let sha256 = Some(Sha256Hash::of(b"whole"));
    NewStaged { id, assignment, in_store: false, chunk_bytes: CHUNK, bytes: CHUNK, sha256, expires_at_ms: 100 }
}

async fn names(tx: &mut Tx) -> Vec<String> {
    tx.useless_staged(10).await.unwrap().into_iter().map(|row: StagedRow| row.id).collect()
}

pub(super) async fn an_unfinished_body_belongs_to_its_last_writer(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 2).await;
    let id = assigned(training(1), 1);
    assert_eq!(tx.take_upload(id, 0).await.unwrap(), None);
    tx.insert_staged(&staged("staged/a", Some(id))).await.unwrap();
    assert!(tx.extend_staged("staged/a", 1, 25).await.unwrap());
    let row = tx.take_upload(id, 0).await.unwrap().unwrap();
    assert_eq!((row.bytes, row.chunks(), row.attempt, row.sha256()), (25, 3, 2, Some(Sha256Hash::of(b"whole"))));
    assert!(!tx.extend_staged("staged/a", 1, 30).await.unwrap(), "somebody else goes on with it");
    assert!(!tx.settle_staged("staged/a", 1, 25, "update/a").await.unwrap());
    assert!(!tx.discard_staged("staged/a", 1).await.unwrap());
    assert!(tx.extend_staged("staged/a", 2, 30).await.unwrap());
    assert!(!tx.settle_staged("staged/a", 2, 25, "update/a").await.unwrap(), "not all that is stored");
    assert!(tx.settle_staged("staged/a", 2, 30, "update/a").await.unwrap());
    assert!(!tx.extend_staged("staged/a", 2, 40).await.unwrap(), "what counts does not grow");
    assert!(!tx.discard_staged("staged/a", 2).await.unwrap());
    assert_eq!(tx.take_upload(id, 0).await.unwrap(), None);
}

pub(super) async fn a_body_in_parts_counts_once_and_is_deleted_little_by_little(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    tx.insert_staged(&staged("staged/a", None)).await.unwrap();
    for chunk in 0..3 {
        tx.put_chunk("staged/a", chunk, b"0").await.unwrap();
        tx.put_chunk("staged/a", chunk, b"0123456789").await.unwrap();
    }
    assert!(tx.extend_staged("staged/a", 1, 30).await.unwrap());
    assert!(tx.settle_staged("staged/a", 1, 30, "model/x/0").await.unwrap());
    assert_eq!(tx.staged_body("model/x/0").await.unwrap().unwrap().id, "staged/a");
    assert_eq!(tx.expire_staged(1_000).await.unwrap(), 0, "what counts does not expire");
    assert!(names(&mut tx).await.is_empty());
    assert_eq!(tx.delete_blob("model/x/0").await.unwrap(), None);
    assert_eq!(tx.staged_body("model/x/0").await.unwrap(), None);
    let row = tx.useless_staged(10).await.unwrap().remove(0);
    assert_eq!(tx.delete_chunks(&row, 2).await.unwrap(), (vec![], false));
    assert_eq!(tx.blob_chunk("staged/a", 1).await.unwrap(), None);
    assert!(tx.blob_chunk("staged/a", 0).await.unwrap().is_some());
    let row = tx.useless_staged(10).await.unwrap().remove(0);
    assert_eq!((row.bytes, tx.delete_chunks(&row, 2).await.unwrap()), (CHUNK, (vec![], true)));
    assert_eq!(tx.blob_chunk("staged/a", 0).await.unwrap(), None);
    assert!(names(&mut tx).await.is_empty());
    tx.insert_staged(&staged("staged/b", None)).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = db.begin().await.unwrap();
    assert!(tx.settle_staged("staged/b", 1, CHUNK, "model/x/0").await.unwrap());
    tx.insert_staged(&staged("staged/c", None)).await.unwrap();
    let taken = tx.settle_staged("staged/c", 1, CHUNK, "model/x/0").await;
    assert!(matches!(taken, Err(DbError::Duplicate)), "a name has one body");
}

pub(super) async fn unfinished_updates_end_with_their_time_their_round_and_a_newer_one(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    start_round(&mut tx, training(1), 3).await;
    let [first, second, third] = [1, 2, 3].map(|client| assigned(training(1), client));
    tx.insert_staged(&staged("staged/a", Some(first))).await.unwrap();
    tx.insert_staged(&staged("staged/b", Some(first))).await.unwrap();
    assert_eq!(names(&mut tx).await, ["staged/a"], "a newer one takes its place");
    tx.insert_staged(&staged("staged/c", Some(second))).await.unwrap();
    tx.discard_upload(second).await.unwrap();
    assert_eq!(names(&mut tx).await, ["staged/a", "staged/c"]);
    assert_eq!(tx.expire_staged(99).await.unwrap(), 0);
    assert_eq!(tx.expire_staged(100).await.unwrap(), 1);
    assert_eq!(names(&mut tx).await, ["staged/a", "staged/b", "staged/c"]);
    // Those of an ended round: one that counts, one that does not.
    tx.insert_staged(&staged("staged/d", Some(first))).await.unwrap();
    assert!(tx.settle_staged("staged/d", 1, CHUNK, &format!("update/{first}")).await.unwrap());
    tx.insert_staged(&staged("staged/e", Some(third))).await.unwrap();
    tx.discard_uploads(training(2)).await.unwrap();
    tx.delete_updates(training(2)).await.unwrap();
    assert_eq!(names(&mut tx).await.len(), 3, "another round's are not touched");
    tx.discard_uploads(training(1)).await.unwrap();
    assert_eq!(names(&mut tx).await, ["staged/a", "staged/b", "staged/c", "staged/e"]);
    assert!(tx.delete_updates(training(1)).await.unwrap().is_empty());
    assert_eq!(names(&mut tx).await.len(), 5);
}

pub(super) async fn parts_in_a_store_are_known_by_their_objects(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    tx.insert_staged(&NewStaged { in_store: true, ..staged("staged/a", None) }).await.unwrap();
    let (one, two) = (chunk_name("staged/a", 0), chunk_name("staged/a", 1));
    assert_eq!(tx.put_object(&one, &object("first")).await.unwrap(), None);
    assert_eq!(tx.put_object(&two, &object("short")).await.unwrap(), None);
    assert_eq!(tx.put_object(&two, &object("second")).await.unwrap().as_deref(), Some("short"));
    assert_eq!(tx.object(&two).await.unwrap(), Some(object("second")));
    assert!(knows_object(&mut tx, "second").await && !knows_object(&mut tx, "short").await);
    assert!(tx.extend_staged("staged/a", 1, CHUNK + 5).await.unwrap());
    assert!(tx.discard_staged("staged/a", 1).await.unwrap());
    let row = tx.useless_staged(1).await.unwrap().remove(0);
    assert_eq!(tx.delete_chunks(&row, 1).await.unwrap(), (vec!["second".to_owned()], false));
    let row = tx.useless_staged(1).await.unwrap().remove(0);
    assert_eq!(tx.delete_chunks(&row, 1).await.unwrap(), (vec!["first".to_owned()], true));
}

pub(super) async fn the_parts_of_a_body_may_be_ranges_of_one_object(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    tx.insert_staged(&NewStaged { in_store: true, ..staged("staged/a", None) }).await.unwrap();
    let [one, two] = [0, 1].map(|chunk| chunk_name("staged/a", chunk));
    let range = |begins| ObjectRow::range("file".into(), begins, &[9; 9]);
    tx.insert_objects(&[(one.clone(), range(0)), (two.clone(), range(9))]).await.unwrap();
    assert_eq!(tx.object(&two).await.unwrap(), Some(range(9)));
    // The second chunk was stored again, in a separate file: the first file stays.
    let former = tx.put_object(&two, &object("other file")).await.unwrap();
    assert_eq!(former.as_deref(), Some("file"));
    assert!(knows_object(&mut tx, "file").await);
    tx.put_object(&two, &range(18)).await.unwrap();
    assert!(tx.extend_staged("staged/a", 1, CHUNK + 5).await.unwrap());
    assert!(tx.discard_staged("staged/a", 1).await.unwrap());
    let row = tx.useless_staged(1).await.unwrap().remove(0);
    assert_eq!(tx.delete_chunks(&row, 2).await.unwrap(), (vec!["file".to_owned()], true), "it is named once");
    assert!(!knows_object(&mut tx, "file").await);
}

pub(super) async fn the_objects_of_many_parts_are_found_at_once(db: &Db) {
    let mut tx = db.begin().await.unwrap();
    let mut row = StagedRow::begun("staged/a".into(), true, CHUNK as usize);
    row.bytes = 100 * CHUNK;
    for chunk in 0..99 {
        tx.insert_object(&chunk_name("staged/a", chunk), &object(&format!("object {chunk}"))).await.unwrap();
    }
    let mut found = tx.objects(&row.chunk_names(0..row.chunks())).await.unwrap();
    found.sort_by_key(|(name, _)| name.rsplit('/').next().map(|chunk| chunk.parse::<u64>().unwrap()));
    let expected = (0..99).map(|chunk| (chunk_name("staged/a", chunk), object(&format!("object {chunk}"))));
    assert!(found.into_iter().eq(expected), "a chunk without an object is left out");
    assert!(tx.objects(&[]).await.unwrap().is_empty());
}
