//! Rows of queries, with errors that name the value that cannot be decoded.

use sqlx::{Column, ColumnIndex, Decode, FromRow, Row, Type};

/// Longest part of a value that an error quotes, in characters.
const QUOTED_CHARS: usize = 80;

/// Decodes a row of a query. sqlx tells only the column of a value that a type refuses, so the error is made here.
///
/// # Errors
/// [`sqlx::Error::ColumnDecode`] with the column, the tables of the query and the value.
pub(in crate::db) fn decoded<R, T>(row: &R, sql: &str) -> Result<T, sqlx::Error>
where
    R: Row,
    T: for<'r> FromRow<'r, R>,
    for<'a> &'a str: ColumnIndex<R>,
    for<'r> String: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> i64: Decode<'r, R::Database> + Type<R::Database>,
{
    T::from_row(row).map_err(|error| match error {
        sqlx::Error::ColumnDecode { index, source } => {
            let column = column(row, &index);
            let text = row.try_get::<String, _>(&*column).map(|text| quoted(&text));
            let value = text.or_else(|_| row.try_get::<i64, _>(&*column).map(|number| number.to_string()));
            let value = value.unwrap_or_else(|_| "its value".to_owned());
            // That of a type which sqlx reads by way of another one is lost (`unprintable error`).
            let why = match source.to_string() {
                lost if lost.starts_with("unprintable error") => "it has another form".to_owned(),
                why => why,
            };
            let index = format!("{column} of {}", tables(sql).join(", "));
            sqlx::Error::ColumnDecode { index, source: format!("{value} cannot be read: {why}").into() }
        }
        other => other,
    })
}

/// The name of a column that sqlx tells by name, by a quoted name, or by its place.
fn column<R: Row>(row: &R, index: &str) -> String {
    let name = index.trim_matches('"');
    let by_place = name.parse().ok().and_then(|place: usize| row.columns().get(place));
    by_place.map_or(name, |column| column.name()).to_owned()
}

fn quoted(text: &str) -> String {
    let quoted = format!("{:?}", text.chars().take(QUOTED_CHARS).collect::<String>());
    if text.chars().nth(QUOTED_CHARS).is_some() { format!("{quoted}..") } else { quoted }
}

/// The tables that a query names, in its order.
fn tables(sql: &str) -> Vec<&str> {
    let mut tables: Vec<&str> = Vec::new();
    let words: Vec<&str> = sql.split(|mark: char| mark.is_whitespace() || "(),".contains(mark)).collect();
    for pair in words.windows(2) {
        let is_table = matches!(pair[0], "from" | "join" | "into" | "update") && !pair[1].is_empty();
        if is_table && !tables.contains(&pair[1]) {
            tables.push(pair[1]);
        }
    }
    tables
}

#[cfg(test)]
mod tests {
    use sqlx::Connection;
    use sqlx_sqlite::{SqliteConnection, SqliteRow};
    use tributary_protocol::id::AssignmentId;

    use super::super::DbError;
    use super::*;

    #[derive(Debug, FromRow)]
    struct Assigned {
        #[sqlx(rename = "id", try_from = "String")]
        _id: AssignmentId,
        #[sqlx(rename = "round", try_from = "i64")]
        _round: u32,
    }

    async fn error<T: for<'r> FromRow<'r, SqliteRow> + Send + Unpin>(values: &'static str) -> String {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let row = sqlx::query(values).fetch_one(&mut connection).await.unwrap();
        let sql = "select id, round from assignments a join clients on true where a.id in (select id from assignments)";
        DbError::from(decoded::<_, T>(&row, sql).err().unwrap()).to_string()
    }

    #[tokio::test]
    async fn a_value_that_a_column_cannot_have_is_named() {
        let head = "the database holds an invalid value:";
        let of_id = error::<Assigned>("select 'asg_7' as id, 1 as round").await;
        assert!(
            of_id.starts_with(&format!("{head} id of assignments, clients: \"asg_7\" cannot be read: ")),
            "{of_id}"
        );
        assert!(!of_id.contains("unprintable"), "{of_id}");
        let id = "'assignment_00000000000000000000000000000000' as id";
        let sql: &'static str = Box::leak(format!("select {id}, -4 as round").into_boxed_str());
        let of_round = error::<Assigned>(sql).await;
        assert!(
            of_round.starts_with(&format!("{head} round of assignments, clients: -4 cannot be read: ")),
            "{of_round}"
        );
        let by_place = error::<(i64,)>("select 'two' as round").await;
        assert!(by_place.contains("round of assignments, clients: \"two\""), "{by_place}");
    }

    #[test]
    fn a_long_value_is_cut() {
        assert_eq!(quoted("a\nb"), r#""a\nb""#);
        assert_eq!(quoted(&"é".repeat(81)), format!("\"{}\"..", "é".repeat(80)));
    }
}
