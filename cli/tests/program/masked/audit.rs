//! Triggers in the database of a run, which note each change of a group and of a member's masked update.
//!
//! They see what a driver wrote in the moment before it was killed, and what another one wrote afterwards.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Connection};
use sqlx_postgres::PgConnection;
use sqlx_sqlite::SqliteConnection;
use tributary_protocol::id::GroupId;
use tributary_protocol::secure::Survivors;
use tributary_protocol::state::GroupStage;

const SQLITE: &str = "
create table noted_groups (number integer primary key, id text, stage text, survivors blob);
create trigger note_group after update on secure_groups begin
    insert into noted_groups (id, stage, survivors) values (new.id, new.stage, new.survivors);
end;
create table noted_bodies (number integer primary key, assignment text, body text);
create trigger note_body after update of body on secure_members begin
    insert into noted_bodies (assignment, body) values (new.assignment, new.body);
end;
";

const POSTGRES: &str = "
create table noted_groups (number bigserial primary key, id text, stage text, survivors bytea);
create function note_group() returns trigger language plpgsql as $$ begin
    insert into noted_groups (id, stage, survivors) values (new.id, new.stage, new.survivors);
    return new;
end $$;
create trigger note_group after update on secure_groups for each row execute function note_group();
create table noted_bodies (number bigserial primary key, assignment text, body text);
create function note_body() returns trigger language plpgsql as $$ begin
    insert into noted_bodies (assignment, body) values (new.assignment, new.body);
    return new;
end $$;
create trigger note_body after update of body on secure_members for each row execute function note_body();
";

/// A change of a group: its stage and its survivors afterwards.
type Group = (String, String, Option<Vec<u8>>);

/// Stage and survivors after a change.
type Change = (GroupStage, Option<Vec<u8>>);

/// What was noted.
struct Noted {
    groups: Vec<Group>,
    /// Assignments and hashes of masked updates.
    bodies: Vec<(String, Option<String>)>,
}

fn is_postgres(database: &str) -> bool {
    database.starts_with("postgres")
}

async fn sqlite(database: &str) -> SqliteConnection {
    let options: sqlx_sqlite::SqliteConnectOptions = format!("sqlite:{database}").parse().unwrap();
    // A coordinator writes at the same time.
    SqliteConnection::connect_with(&options.busy_timeout(std::time::Duration::from_secs(30))).await.unwrap()
}

/// Begins to note the changes.
pub(super) async fn begin(database: &str) {
    if is_postgres(database) {
        let mut connection = PgConnection::connect(database).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(POSTGRES)).execute(&mut connection).await.unwrap();
    } else {
        sqlx::raw_sql(AssertSqlSafe(SQLITE)).execute(&mut sqlite(database).await).await.unwrap();
    }
}

async fn noted(database: &str) -> Noted {
    let groups = "select id, stage, survivors from noted_groups order by number";
    let bodies = "select assignment, body from noted_bodies order by number";
    if is_postgres(database) {
        let mut connection = PgConnection::connect(database).await.unwrap();
        let groups = sqlx::query_as(groups).fetch_all(&mut connection).await.unwrap();
        Noted { groups, bodies: sqlx::query_as(bodies).fetch_all(&mut connection).await.unwrap() }
    } else {
        let mut connection = sqlite(database).await;
        let groups = sqlx::query_as(groups).fetch_all(&mut connection).await.unwrap();
        Noted { groups, bodies: sqlx::query_as(bodies).fetch_all(&mut connection).await.unwrap() }
    }
}

/// Checks that every group went down the list of stages to its end, that its survivors did not change, and that no
/// member has had two masked updates. Returns the survivors of each group that had some.
pub(super) async fn check(database: &str) -> BTreeMap<GroupId, Survivors> {
    let Noted { groups, bodies } = noted(database).await;
    let mut changes: BTreeMap<GroupId, Vec<Change>> = BTreeMap::new();
    for (group, stage, survivors) in groups {
        changes.entry(group.parse().unwrap()).or_default().push((stage.parse().unwrap(), survivors));
    }
    let mut fixed = BTreeMap::new();
    for (group, changes) in changes {
        assert!(changes.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{group} went back: {changes:?}");
        let entered: Vec<_> = changes.chunk_by(|one, other| one.0 == other.0).map(|same| same[0].0).collect();
        assert!(entered.last().is_some_and(|stage| stage.is_final()), "{group} did not end: {entered:?}");
        assert_eq!(entered.iter().filter(|stage| stage.is_final()).count(), 1, "{group} ended twice: {entered:?}");
        let written: Vec<_> = changes.iter().skip_while(|(_, survivors)| survivors.is_none()).collect();
        assert!(written.windows(2).all(|pair| pair[0].1 == pair[1].1), "{group} has other survivors: {written:?}");
        if let Some((_, Some(survivors))) = written.first() {
            fixed.insert(group, Survivors::from_bytes(survivors).unwrap());
        }
    }
    let mut masked = BTreeMap::new();
    for (assignment, body) in bodies {
        let before = masked.insert(assignment.clone(), body.clone());
        assert_eq!(before.unwrap_or_else(|| body.clone()), body, "{assignment} has another masked update");
    }
    fixed
}
