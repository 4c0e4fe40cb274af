//! Every query on both databases: each claim is one function of a database, run on SQLite and on PostgreSQL.

mod assignments;
mod buffers;
mod dashboard;
mod devices;
mod jobs;
mod members;
mod model_files;
mod nodes;
mod people;
mod rounds;
mod scheduled;
mod staged;
mod stored;
mod transactions;

/// Makes a test of each claim on each database.
macro_rules! on_both_databases {
    ($($module:ident::$claim:ident,)*) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $claim() {
                let directory = tempfile::TempDir::new().unwrap();
                let path = directory.path().join("claims.db").display().to_string();
                let db = tributary_server::db::Db::open(&path).await.unwrap();
                super::$module::$claim(&db).await;
                db.close().await;
            })*
        }

        mod postgres {
            $(#[tokio::test]
            async fn $claim() {
                let Some(database) = crate::support::postgres().await else { return };
                let db = tributary_server::db::Db::open(&database.url).await.unwrap();
                super::$module::$claim(&db).await;
                db.close().await;
            })*
        }
    };
}

on_both_databases! {
    people::a_population_is_stored_once_and_listed_by_name,
    people::a_token_works_until_it_expires_or_is_revoked,
    people::tokens_of_admins_are_told_from_all_others,
    people::enrolments_are_counted_up_to_the_limits_of_their_token,
    people::the_last_use_of_a_token_only_moves_when_it_is_old,
    people::accounts_are_stored_once_and_listed_by_name,
    people::a_session_works_until_it_expires_idles_or_its_account_is_revoked,
    people::clients_are_numbered_and_known_by_their_secret,
    people::a_client_is_what_it_said_last,
    people::clients_are_listed_with_how_their_work_ended,
    people::clients_are_found_and_ordered,
    people::last_rounds_count_training_only,
    people::the_last_update_of_a_client_has_a_loss_and_may_have_been_dropped,
    devices::a_next_secret_replaces_the_old_one_when_it_is_used,
    devices::a_key_is_bound_once_and_known_when_its_client_is_excluded,
    devices::a_client_that_enrols_again_keeps_its_id_unless_it_is_revoked,
    devices::a_population_has_one_ca_until_another_one_is_needed,
    dashboard::a_job_at_a_glance_is_the_sum_of_its_rounds,
    dashboard::a_spark_prefers_rounds_that_were_measured,
    dashboard::jobs_that_may_run_come_first_and_the_newest_of_them,
    dashboard::a_cohort_is_shown_by_client_number,
    dashboard::nobody_works_longer_than_it_was_assigned,
    dashboard::a_curve_is_read_from_ended_training_rounds,
    dashboard::the_history_of_a_client_is_paged_from_its_end,
    dashboard::sessions_are_counted_over_the_newest,
    dashboard::a_feed_follows_jobs_until_a_while_after_their_end,
    dashboard::the_audit_log_is_a_chain_and_is_paged_from_its_end,
    dashboard::the_audit_log_is_searched_and_its_enrolments_are_folded,
    dashboard::concurrent_entries_make_one_chain,
    jobs::a_job_is_stored_once_per_name_and_population,
    jobs::jobs_are_listed_by_id_and_population,
    jobs::a_job_that_ends_says_when,
    jobs::the_driver_sees_jobs_that_may_move,
    jobs::a_model_version_is_stored_once,
    jobs::bodies_are_kept_in_parts,
    jobs::a_body_in_a_store_is_known_by_its_name_and_by_its_object,
    jobs::a_database_has_one_id_for_ever,
    jobs::events_are_numbered_per_job,
    rounds::a_round_is_opened_once,
    rounds::rounds_are_listed_from_both_ends,
    rounds::rounds_are_sorted_by_their_figures,
    rounds::a_round_only_moves_forward_and_each_step_happens_once,
    rounds::a_committed_round_counts_for_its_job,
    rounds::abandoned_rounds_are_counted_until_one_commits,
    rounds::ends_are_counted_by_state,
    rounds::evaluations_are_weighted_means,
    rounds::a_panel_is_widened_once_and_knows_its_clients,
    rounds::an_evaluation_without_accuracy_has_none,
    rounds::measures_are_stored_with_the_round_and_its_assignments,
    assignments::a_client_has_one_open_assignment_and_one_per_round,
    assignments::a_report_is_accepted_once,
    assignments::an_assignment_ends_once,
    assignments::only_a_straggler_comes_late_and_once,
    assignments::assignments_are_listed_by_client_number,
    assignments::deleting_updates_spares_other_rounds_and_models,
    assignments::bytes_of_broken_uploads_are_counted_once,
    assignments::an_upload_in_several_requests_began_with_the_first,
    assignments::a_download_is_for_what_was_assigned_before_it_ended,
    buffers::open_assignments_move_on_and_keep_what_they_are,
    buffers::a_client_works_again_in_a_round_with_another_seed,
    buffers::staleness_is_counted_over_rounds,
    members::a_member_comes_with_a_clock_and_leaves,
    staged::an_unfinished_body_belongs_to_its_last_writer,
    staged::a_body_in_parts_counts_once_and_is_deleted_little_by_little,
    staged::unfinished_updates_end_with_their_time_their_round_and_a_newer_one,
    staged::parts_in_a_store_are_known_by_their_objects,
    staged::the_objects_of_many_parts_are_found_at_once,
    staged::the_parts_of_a_body_may_be_ranges_of_one_object,
    model_files::a_version_has_one_file_of_each_form,
    model_files::steps_come_in_order_with_what_they_start_from,
    model_files::files_are_deleted_with_their_version,
    nodes::nodes_are_known_while_they_are_seen,
    nodes::a_lease_has_one_holder_until_it_expires,
    nodes::held_clients_are_seen_by_every_node,
    nodes::clients_at_work_are_known_by_job,
    nodes::news_and_haste_do_not_change_what_is_stored,
    nodes::a_beginning_that_is_given_up_leaves_nothing_open,
    scheduled::work_is_arranged_once,
    scheduled::of_many_that_claim_a_run_one_gets_it,
    scheduled::a_run_is_ended_by_who_began_it,
    scheduled::a_version_whose_file_is_deleted_keeps_its_row,
    scheduled::the_best_version_is_that_of_the_best_evaluation,
    scheduled::a_notification_is_due_until_it_is_taken_or_given_up,
    scheduled::pruning_takes_assignments_of_old_rounds_and_nothing_else,
    scheduled::events_of_rounds_are_deleted_and_those_of_the_job_stay,
    scheduled::tokens_are_spent_when_they_expired_and_let_nobody_in,
    transactions::what_is_not_committed_never_happened,
    transactions::a_reader_sees_one_moment_and_writes_nothing,
    transactions::of_many_drivers_one_moves_a_round,
    transactions::concurrent_events_leave_no_holes,
}
