//! Bodies in object stores: the same rounds as in the database, faults that lose nothing, orphans that go.

mod driving;
mod faults;
mod faulty;
mod places;
mod s3;
mod sweeping;

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use tributary_server::blob::OpenedStore;

use self::faulty::Faulty;

/// A store without a prefix whose calls may take long.
fn opened(objects: Arc<dyn ObjectStore>) -> OpenedStore {
    OpenedStore::new(objects, Path::default(), Duration::from_secs(60))
}

fn in_memory() -> OpenedStore {
    opened(Arc::new(InMemory::new()))
}

/// A store in memory that fails when told to.
fn faulty() -> (Arc<Faulty>, OpenedStore) {
    let faulty = Arc::new(Faulty::new(Arc::new(InMemory::new())));
    (Arc::clone(&faulty), opened(faulty))
}

/// Every object, in the order of the keys.
async fn objects(store: &OpenedStore) -> Vec<ObjectMeta> {
    let mut objects: Vec<_> = store.objects.list(None).try_collect().await.unwrap();
    objects.sort_by(|left: &ObjectMeta, right| left.location.cmp(&right.location));
    objects
}

/// How many objects are updates, and how many are models.
async fn counts(store: &OpenedStore) -> (usize, usize) {
    let objects = objects(store).await;
    let of = |kind: &str| objects.iter().filter(|object| object.location.as_ref().contains(kind)).count();
    assert_eq!(of("/update/") + of("/model/"), objects.len(), "nothing else is in the store: {objects:?}");
    (of("/update/"), of("/model/"))
}
