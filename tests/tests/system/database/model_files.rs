//! Files that are made of model versions.

use tributary_protocol::download::ModelForm;
use tributary_protocol::hash::Sha256Hash;
use tributary_protocol::operator::ModelVersion;
use tributary_server::blob::{model_file_key, model_key};
use tributary_server::db::{Db, DbError, MadeFor, ModelFileRow, Tx};

use super::stored::{job_id, population};

const INT8: MadeFor = MadeFor::Form(ModelForm::Int8);
const F16: MadeFor = MadeFor::Form(ModelForm::F16);

fn hash(version: u32, of: &str) -> Sha256Hash {
    Sha256Hash::of(format!("{version} {of}").as_bytes())
}

fn file(version: u32, form: MadeFor) -> ModelFileRow {
    let sha256 = hash(version, form.as_str());
    ModelFileRow { version, form, sha256, bytes: 100 + u64::from(version), packed: version.is_multiple_of(2) }
}

async fn store_versions(tx: &mut Tx, versions: u32) {
    for version in 0..versions {
        let model = ModelVersion {
            version,
            round: (version > 0).then_some(version),
            sha256: hash(version, "f32"),
            bytes: 400,
            created_at_ms: 50,
            deleted_at_ms: None,
            accuracy: None,
            measured_on: None,
            loss: None,
            best: false,
            pinned_at_ms: None,
        };
        tx.insert_model(job_id(1), &model).await.unwrap();
        tx.insert_blob(&model_key(job_id(1), version), b"body").await.unwrap();
    }
}

pub(super) async fn a_version_has_one_file_of_each_form(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    for row in [file(1, INT8), file(1, F16), file(2, MadeFor::Delta)] {
        tx.insert_model_file(job_id(1), &row).await.unwrap();
        assert_eq!(tx.model_file(job_id(1), row.version, row.form).await.unwrap(), Some(row));
    }
    assert_eq!(tx.model_file(job_id(1), 2, INT8).await.unwrap(), None);
    assert_eq!(tx.model_file(job_id(2), 1, INT8).await.unwrap(), None);
    let twice = tx.insert_model_file(job_id(1), &file(1, INT8)).await;
    assert!(matches!(twice, Err(DbError::Duplicate)), "{twice:?}");
}

pub(super) async fn steps_come_in_order_with_what_they_start_from(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    store_versions(&mut tx, 6).await;
    for version in [3, 1, 2, 5] {
        tx.insert_model_file(job_id(1), &file(version, MadeFor::Delta)).await.unwrap();
        tx.insert_model_file(job_id(1), &file(version, INT8)).await.unwrap();
    }
    let steps = tx.steps(job_id(1), 1, 5).await.unwrap();
    assert_eq!(steps.iter().map(|step| step.version).collect::<Vec<_>>(), [2, 3, 5]);
    for step in steps {
        assert_eq!(step.base_sha256, hash(step.version - 1, "f32"));
        assert_eq!((step.sha256, step.bytes), (hash(step.version, "delta"), 100 + u64::from(step.version)));
    }
    assert_eq!(tx.steps(job_id(1), 5, 5).await.unwrap(), []);
    assert_eq!(tx.steps(job_id(2), 0, 5).await.unwrap(), []);
}

pub(super) async fn files_are_deleted_with_their_version(db: &Db) {
    population(db).await;
    let mut tx = db.begin().await.unwrap();
    store_versions(&mut tx, 3).await;
    for (version, form) in [(1, INT8), (1, F16), (1, MadeFor::Delta), (2, MadeFor::Delta)] {
        tx.insert_model_file(job_id(1), &file(version, form)).await.unwrap();
        tx.insert_blob(&model_file_key(job_id(1), version, form), b"made").await.unwrap();
    }
    assert!(tx.delete_model_file(job_id(1), 1, 60).await.unwrap());
    for form in [INT8, F16, MadeFor::Delta] {
        assert_eq!(tx.model_file(job_id(1), 1, form).await.unwrap(), None);
        assert!(tx.blob_chunk(&model_file_key(job_id(1), 1, form), 0).await.unwrap().is_none());
    }
    assert!(tx.model_file(job_id(1), 2, MadeFor::Delta).await.unwrap().is_some());
    assert!(tx.blob_chunk(&model_file_key(job_id(1), 2, MadeFor::Delta), 0).await.unwrap().is_some());
    assert!(tx.blob_chunk(&model_key(job_id(1), 2), 0).await.unwrap().is_some());
}
