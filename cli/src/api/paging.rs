//! Lists of any length, fetched page by page.

use tributary_protocol::operator::{PAGE_ITEMS_MAX, Page, PageQuery};

use super::error::ApiError;

/// A list, or the first part of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing<T> {
    /// In the coordinator's order.
    pub items: Vec<T>,
    /// Whether the coordinator has more items than were asked for.
    pub is_cut: bool,
}

/// Fetches pages until there are `items_max` items (`None`: all) or the list ends.
pub async fn collect<T>(
    items_max: Option<usize>,
    fetch: impl AsyncFn(PageQuery) -> Result<Page<T>, ApiError>,
) -> Result<Listing<T>, ApiError> {
    collect_from(None, items_max, fetch).await
}

/// The newest items first. The coordinator's lists are in the order of ids, so all pages are fetched.
pub async fn collect_newest<T>(
    items_max: Option<usize>,
    created_at_ms: impl Fn(&T) -> i64,
    fetch: impl AsyncFn(PageQuery) -> Result<Page<T>, ApiError>,
) -> Result<Listing<T>, ApiError> {
    collect_sorted(items_max, |a, b| created_at_ms(b).cmp(&created_at_ms(a)), fetch).await
}

/// The first items in this order; items that are equal in it stay in the order of the coordinator.
pub async fn collect_sorted<T>(
    items_max: Option<usize>,
    order: impl FnMut(&T, &T) -> std::cmp::Ordering,
    fetch: impl AsyncFn(PageQuery) -> Result<Page<T>, ApiError>,
) -> Result<Listing<T>, ApiError> {
    let mut items = collect(None, fetch).await?.items;
    items.sort_by(order);
    let items_max = items_max.unwrap_or(usize::MAX);
    let is_cut = items.len() > items_max;
    items.truncate(items_max);
    Ok(Listing { items, is_cut })
}

/// As [`collect`], starting behind the item `after`.
pub async fn collect_from<T>(
    mut after: Option<String>,
    items_max: Option<usize>,
    fetch: impl AsyncFn(PageQuery) -> Result<Page<T>, ApiError>,
) -> Result<Listing<T>, ApiError> {
    let mut items = Vec::new();
    loop {
        let missing = items_max.map_or(usize::MAX, |items_max| items_max.saturating_sub(items.len()));
        if missing == 0 {
            return Ok(Listing { items, is_cut: true });
        }
        let limit = u32::try_from(missing).map_or(PAGE_ITEMS_MAX, |missing| missing.min(PAGE_ITEMS_MAX));
        let page = fetch(PageQuery { limit: Some(limit), after: after.clone() }).await?;
        items.extend(page.items);
        match page.next {
            None => return Ok(Listing { items, is_cut: false }),
            next if next == after => {
                let cause = "the next page is the same page again".into();
                return Err(ApiError::BadAnswer { call: "a list".into(), cause });
            }
            next => after = next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of the numbers below `length`, in pages of at most 4.
    async fn numbers(length: u32, query: PageQuery) -> Result<Page<u32>, ApiError> {
        let first = query.after.map_or(0, |after| after.parse::<u32>().unwrap() + 1);
        let end = length.min(first + query.limit.unwrap().min(4));
        let next = (end < length).then(|| (end - 1).to_string());
        Ok(Page { items: (first..end).collect(), next })
    }

    #[tokio::test]
    async fn pages_are_followed_to_the_end_or_to_the_wanted_count() {
        let all = collect(None, async |query| numbers(10, query).await).await.unwrap();
        assert_eq!(all, Listing { items: (0..10).collect(), is_cut: false });
        let six = collect(Some(6), async |query| numbers(10, query).await).await.unwrap();
        assert_eq!(six, Listing { items: (0..6).collect(), is_cut: true });
        let ten = collect(Some(10), async |query| numbers(10, query).await).await.unwrap();
        assert!(!ten.is_cut);
        assert!(collect(None, async |query| numbers(0, query).await).await.unwrap().items.is_empty());
    }

    #[tokio::test]
    async fn the_newest_items_come_first() {
        let numbers = async |query| numbers(10, query).await;
        let newest = collect_newest(Some(3), |number| i64::from(*number), numbers).await.unwrap();
        assert_eq!(newest, Listing { items: vec![9, 8, 7], is_cut: true });
    }

    #[tokio::test]
    async fn pages_in_a_circle_are_a_bad_answer_and_no_endless_loop() {
        let circle = async |_| Ok(Page { items: vec![1], next: Some("1".into()) });
        assert!(matches!(collect(None, circle).await, Err(ApiError::BadAnswer { .. })));
    }
}
