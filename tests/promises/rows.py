"""What went wrong in systems like this one and must not here: each promise with the tests that prove it.

A promise of which a part needs something that is not built yet says so in ``later``; one without tests is all later.
"""

from __future__ import annotations

from tests.promises.row import Row
from tests.promises.rows_of_money import MONEY
from tests.promises.rows_of_the_desktop import DESKTOP
from tests.promises.rows_of_the_machine import MACHINE

WORK = (
    Row(
        "a seal takes from the buffer exactly what it read, and what is appended meanwhile stays",
        (
            "tree/test_seal.py::test_appends_during_a_seal_survive",
            "tree/test_seal.py::test_an_append_behind_the_groups_does_not_undo_the_seal",
            "tree/test_workers.py::test_one_worker_and_four_in_any_order_grow_the_same_trees",
        ),
    ),
    Row(
        "a summary is named by what it is made from, so a seal that runs twice leaves one",
        (
            "tree/test_seal.py::test_a_seal_run_twice_leaves_one",
            "worker/test_run_twice.py::test_twice_at_once_with_one_lease_lost_gives_the_same_rows_as_once",
            "ground/test_ids.py::test_ids_are_the_same_on_every_machine",
        ),
    ),
    Row(
        "leases of the dead are given back at the start, at every tick and the instant a process ends",
        (
            "supervisor/test_killed_supervisor.py::test_nothing_is_left_and_a_new_start_continues",
            "supervisor/test_killed_worker.py::test_killed_worker_is_replaced_and_its_job_finished_within_a_second",
            "supervisor/test_tick.py::test_retired_rows_are_purged_and_ended_leases_given_back_at_the_start",
            "supervisor/test_leftovers.py::test_rows_of_the_dead_are_given_back_and_only_the_handled_one_counts",
            "promises/test_recovery_ticks.py::test_an_ended_lease_is_given_back_by_a_tick_of_an_agent_that_goes_on",
        ),
    ),
    Row(
        "a stop gives back its own leases and nobody else's",
        (
            "queue/test_recovery.py::test_release_gives_back_own_leases_only_and_burns_nothing",
            "supervisor/test_killed_worker.py::test_ordered_death_counts_no_crash_and_burns_no_attempt",
        ),
    ),
    Row(
        "a job that kills its process three times is parked where it is seen, and its batch goes on",
        (
            "queue/test_recovery.py::test_three_crashes_park_a_job_visibly",
            "queue/test_recovery.py::test_the_third_death_parks_the_row_and_frees_its_batch_mates",
            "supervisor/test_limits.py::test_poison_is_parked_at_three_crashes_and_all_batch_mates_are_done",
        ),
    ),
    Row(
        "only known kinds are claimed, and a row that cannot be read is parked once",
        (
            "queue/test_claim.py::test_only_registered_kinds_are_claimed",
            "queue/test_recovery.py::test_rows_that_cannot_be_read_are_parked_once_and_visibly",
            "queue/test_recovery.py::test_a_row_of_an_unknown_kind_is_never_handed_out",
            "queue/test_claim.py::test_a_payload_that_is_no_json_is_parked_once_and_seen",
        ),
    ),
    Row(
        "requeueing many rows with clashing keys goes row by row, the newest of each key",
        (
            "queue/test_requeue.py::test_five_hundred_failed_rows_with_clashing_keys_are_requeued",
            "queue/test_requeue.py::test_of_several_failed_rows_with_one_key_the_newest_is_requeued",
            "queue/test_requeue.py::test_self_heal_is_bounded_and_goes_on_at_the_next_tick",
        ),
    ),
    Row(
        "failures have a type and a reason, and what a reason parked is requeued by that reason",
        (
            "queue/test_requeue.py::test_requeue_failed_takes_both_classes_or_the_reasons_named",
            "queue/test_settle.py::test_a_transient_failure_keeps_its_code_and_its_retry_time",
            "actions/test_doctor.py::test_failed_job_comes_with_its_remedy",
            "models/money/test_mending.py::test_one_top_up_brings_back_all_165",
            "models/money/test_mending.py::test_mending_one_cause_of_one_profile_touches_nothing_else",
            "models/money/test_what_a_failure_means.py::test_success_brings_back_exactly_what_the_cause_had_parked",
            "cli/test_models.py::test_a_switch_brings_back_what_the_profile_before_could_not_do",
        ),
    ),
    Row(
        "a provider that refuses is not asked again and again",
        (
            "queue/test_settle.py::test_an_unrecoverable_failure_is_terminal_on_the_first_attempt",
            "models/money/test_many_processes.py::test_a_day_of_errors_is_a_hundred_calls_and_not_twelve_thousand",
            "models/money/test_many_processes.py::test_two_processes_have_one_breaker",
            "models/money/test_what_a_failure_means.py::"
            "test_five_failures_in_a_row_open_the_breaker_and_rows_wait_without_a_burnt_attempt",
            "models/money/test_what_a_failure_means.py::"
            "test_retry_after_is_respected_to_the_second_and_burns_no_attempt",
        ),
    ),
    Row(
        "stops and delays wear no job out, and its age counts from its last progress",
        (
            "queue/test_recovery.py::test_graceful_stops_never_wear_a_job_out",
            "queue/test_settle.py::test_a_defer_burns_no_attempt_however_often",
            "queue/test_settle.py::test_the_age_of_a_deferred_row_counts_from_its_last_progress",
        ),
    ),
    Row(
        "effects, follow-ups and status commit together, and a kill between any two steps costs time only",
        (
            "queue/test_settle.py::test_effects_status_and_follow_ups_commit_together",
            "ingest/test_lost_queue_is_found_again.py::test_the_jobs_table_emptied_at_any_moment_loses_no_item",
            "tree/test_sweeps.py::test_a_queue_that_loses_every_row_costs_time_only",
            "promises/test_killed_in_each_step.py::"
            "test_a_kill_between_any_two_steps_of_any_kind_costs_time_and_nothing_else",
        ),
    ),
    Row(
        "that an item was read is stored with what was read of it, or not at all",
        (
            "ingest/test_ingest_is_one_transaction.py::test_a_failure_inside_leaves_nothing_behind",
            "ingest/test_ingest_is_one_transaction.py::test_planning_writes_nothing",
            "ingest/test_ingest_is_one_transaction.py::"
            "test_an_ingest_after_a_crash_between_plan_and_settle_is_the_same",
        ),
    ),
    Row(
        "a permit is taken before a row is, and nobody spins for one",
        (
            "worker/test_permit_before_claim.py::"
            "test_an_llm_bound_job_runs_under_a_permit_that_is_back_before_it_settles",
            "worker/test_permit_before_claim.py::test_without_a_permit_only_kinds_that_need_none_are_claimed",
            "queue/test_run.py::test_nobody_tries_the_gate_where_no_llm_bound_row_is_due",
            "gate/test_gate.py::test_serve_waiting_wakes_only_for_a_due_row_and_a_free_permit",
        ),
    ),
    Row(
        "a healthy job is never started twice: heartbeats have a thread of their own, and a limit of time is no lease",
        (
            "worker/test_worker_process.py::test_a_held_lease_outlives_many_leases",
            "worker/test_heartbeat.py::test_a_lease_is_renewed_at_a_third_of_its_time",
            "worker/test_heartbeat.py::test_a_renewal_does_not_wait_for_the_writers_turn",
            "supervisor/test_limits.py::test_hung_and_eating_handlers_are_ended",
        ),
    ),
    Row(
        "a worker whose lease went to another completes, fails and renews nothing",
        (
            "queue/test_settle.py::test_a_stale_worker_touches_nothing_of_the_newer_attempt",
            "queue/test_settle.py::test_the_same_worker_with_an_older_token_is_stale_too",
            "queue/test_leases.py::test_renewing_prolongs_what_is_held_and_names_what_is_lost",
            "queue/test_leases.py::test_cancelling_takes_the_lease_away",
            "queue/test_processes.py::test_a_worker_that_lost_its_lease_to_another_process_applies_nothing",
        ),
    ),
    Row(
        "a worker that comes back has another name, so that its old leases look dead",
        ("promises/test_agent_goes_on.py::test_a_worker_that_comes_back_has_another_name_so_its_old_leases_look_dead",),
    ),
    Row(
        "after sleep nothing is started twice, and a worker that could not renew for a lease stops by itself",
        (
            "supervisor/test_suspended.py::test_work_in_hand_is_not_started_twice_after_sleep",
            "supervisor/test_sleep_and_time.py::"
            "test_after_sleep_leases_get_one_renewal_and_catching_up_starts_once_after_thirty_seconds",
            "worker/test_worker_process.py::test_a_worker_whose_heartbeat_fails_for_a_lease_stops_by_itself",
        ),
    ),
    Row(
        "a clock that is set back stops nothing",
        (
            "queue/test_recovery.py::test_after_the_clock_was_set_back_work_goes_on",
            "queue/test_recovery.py::test_a_backoff_from_before_the_clock_was_set_back_keeps_its_length",
            "queue/test_recovery.py::test_an_absurd_lease_end_is_mended_to_a_whole_lease",
            "supervisor/test_tick.py::test_clock_set_back_does_not_stop_the_syncs",
        ),
    ),
    Row(
        "no item is handed to two processes, and none is lost between them",
        (
            "queue/test_processes.py::test_claimers_from_a_barrier_get_no_row_twice_and_lose_none",
            "queue/test_processes.py::test_producers_in_many_processes_never_make_two_active_rows_of_one_key",
        ),
    ),
    Row(
        "claimed is a state, not a deletion: a killed worker loses no job",
        (
            "queue/test_processes.py::test_a_killed_workers_job_is_neither_lost_nor_half_done",
            "queue/test_claim.py::test_a_claim_leases_the_row_and_counts_as_an_attempt",
        ),
    ),
    Row(
        "no descriptor of the memory is opened beside a connection, and no connection crosses a fork",
        (
            "promises/test_connections.py::test_connections_live_long_and_nobody_opens_the_memory_as_a_file",
            "db/test_connection.py::test_a_connection_that_crossed_a_fork_is_refused_and_the_parent_is_unharmed",
        ),
    ),
    Row(
        "the log of writes is bounded: no look is left open, and it is cut when idle",
        (
            "promises/test_bounds.py::test_log_of_writes_keeps_to_its_limit_and_shrinks_back_once_a_reader_is_gone",
            "promises/test_transactions.py::test_no_look_is_left_open_behind_a_job",
            "supervisor/test_tick.py::test_wal_is_cut_to_nothing_and_then_left_alone",
        ),
    ),
    Row(
        "rows of jobs that are over slow nobody and go",
        (
            "promises/test_bounds.py::test_thousands_of_rows_that_are_over_slow_nobody_and_go",
            "queue/test_pruning.py::test_pruning_goes_in_short_transactions_and_stops_in_between",
            "queue/test_claim.py::test_claiming_steps_few_rows_however_many_are_delayed_or_done",
        ),
    ),
    Row(
        "whoever finds nothing to do took no write lock to find out",
        (
            "queue/test_claim.py::test_looking_at_an_empty_queue_takes_no_write_lock",
            "queue/test_recovery.py::test_an_idle_tick_writes_nothing",
            "worker/test_worker_process.py::test_an_idle_worker_writes_nothing_and_sleeps",
        ),
    ),
    Row(
        "a commit that reports an error may have happened: repeating it is safe",
        (
            "queue/test_settle.py::test_a_verb_repeated_after_an_unacknowledged_commit_says_the_same",
            "queue/test_settle.py::test_a_repeated_plan_writes_once",
            "worker/test_backoff.py::test_a_settle_whose_commit_reported_an_error_but_happened_is_not_applied_twice",
        ),
    ),
    Row(
        "no transaction begins by reading and goes on by writing",
        ("promises/test_transactions.py::test_no_transaction_turns_from_reading_to_writing",),
    ),
    Row(
        "processes that start together migrate once and none of them fails",
        ("db/test_migrations.py::test_processes_that_start_together_migrate_once",),
    ),
)

MEMORY = (
    Row(
        "summaries are made from whole bodies, never from their beginnings",
        (
            "tree/test_seal.py::test_children_are_given_whole_with_title_and_time",
            "models/test_summary.py::test_an_input_shorter_than_its_budget_passes_through_whole",
            "models/tasks/test_summaries.py::"
            "test_an_input_too_long_is_read_in_parts_one_a_run_and_nothing_of_it_is_left_out",
        ),
    ),
    Row(
        "each mail's chunks hold its own cleaned body, all of it",
        (
            "ingest/test_mail_is_read_whole.py::test_text_is_never_lost_past_a_preview",
            "ingest/test_mail_is_read_whole.py::test_each_mail_has_its_own_time_author_reference_title_and_body",
        ),
    ),
    Row(
        "each message has its own time, author, reference, title and place among the headings",
        (
            "ingest/test_mail_is_read_whole.py::test_each_mail_has_its_own_time_author_reference_title_and_body",
            "ingest/test_chats_are_filed_by_day.py::test_a_chunk_of_a_chat_points_at_its_lines_and_knows_its_turns_times",
            "ingest/test_chunks_stay_where_nothing_changed.py::test_heading_paths_and_breaks_follow_the_outline",
        ),
    ),
    Row(
        "whether a document changed is decided by its content, not by its name",
        (
            "ingest/test_documents_keep_their_identity.py::test_an_edit_makes_only_the_chunks_around_it_new",
            "ingest/test_documents_keep_their_identity.py::"
            "test_an_unchanged_file_costs_a_stat_and_a_touched_one_its_hash",
        ),
    ),
    Row(
        "quoted lines and footers take no prose with them, and every address stays as it was",
        (
            "ingest/test_mail_is_read_whole.py::test_addresses_survive",
            "ingest/test_mail_is_read_whole.py::test_answers_between_quoted_lines_stay_with_them",
            "ingest/test_mail_is_read_whole.py::test_what_is_only_quoted_at_the_end_is_a_chunk_of_its_own",
        ),
    ),
    Row(
        "a folder that is empty or not mounted deletes nothing without being asked about",
        (
            "ingest/test_sync_finds_what_changed.py::test_a_source_that_is_not_there_deletes_nothing",
            "ingest/test_a_shrinking_source_is_asked_about.py::test_more_than_half_gone_at_once_is_held_back_and_asked",
            "ingest/test_a_shrinking_source_is_asked_about.py::"
            "test_refused_loss_is_kept_told_and_not_asked_about_again",
        ),
    ),
    Row(
        "what was deleted or forgotten is in no buffer, no summary and no result",
        (
            "ingest/test_deleted_items_leave.py::test_a_deleted_note_leaves_with_chunks_trees_jobs_and_file_row",
            "forget/test_nothing_is_left.py::test_words_are_nowhere_and_stay_out",
            "forget/test_nothing_is_left.py::test_no_command_shows_it",
            "forget/test_nothing_is_left.py::test_only_ancestors_are_made_again",
        ),
    ),
    Row(
        "a summary is shorter than what it is made from and names nobody who is not in it",
        (
            "models/test_summary.py::test_the_budget_is_kept_and_used",
            "models/test_summary.py::test_no_name_occurs_that_was_not_in_the_input",
            "models/test_summary.py::test_no_sentence_is_invented_at_any_level",
        ),
    ),
    Row(
        "noise is refused: a signal that is missing is left out, not counted as a half",
        (
            "ingest/test_only_noise_is_refused.py::test_a_signal_that_is_missing_is_left_out_not_counted_as_a_half",
            "ingest/test_only_noise_is_refused.py::test_noise_is_refused",
            "ingest/test_only_noise_is_refused.py::test_no_real_text_is_dropped",
            "models/tasks/test_share.py::test_of_documents_next_to_nothing_is_asked_about",
            "models/tasks/test_share.py::test_of_chats_the_doubtful_middle_is_and_several_chunks_go_into_one_call",
        ),
    ),
    Row("a day holds that day's material only", later="days are not built yet"),
    Row("days that were missed are made at the next start", later="days are not built yet"),
    Row(
        "after a wipe the same files are read again",
        (
            "promises/test_wiped.py::test_a_removed_source_that_is_added_again_is_read_again",
            "promises/test_wiped.py::test_a_memory_file_that_was_deleted_grows_again_with_the_same_ids",
        ),
    ),
    Row(
        "another embedding model blinds nothing: vectors are kept by signature, and not searched yet is said",
        (
            "recall/test_search.py::test_vectors_of_another_model_make_it_partial_and_blind_nothing",
            "worker/test_reembed_backfill.py::test_another_model_embeds_everything_anew_and_an_old_chain_ends",
            "worker/test_reembed_switch.py::test_the_old_signature_serves_until_the_new_one_covers_everything",
            "recall/test_switching_the_embedding_model.py::test_a_switch_loses_no_search_result_meanwhile",
        ),
    ),
    Row(
        "an empty memory answers at once",
        (
            "recall/test_search.py::test_an_empty_memory_answers_at_once",
            "recall/test_search.py::test_an_empty_memory_with_a_source_to_be_looked_at_says_not_yet",
        ),
    ),
    Row(
        "Chinese is counted by its characters, by the one estimator",
        (
            "ground/test_ids.py::test_tokens_of_cjk_are_not_a_quarter_of_its_characters",
            "ingest/test_chunks_stay_where_nothing_changed.py::"
            "test_chinese_is_measured_by_its_characters_not_by_quarters_of_them",
        ),
    ),
    Row(
        "results are cut by how good they are, not by the name of their source",
        (
            "recall/test_search.py::test_results_are_cut_by_score_not_by_source",
            "recall/test_search.py::test_equal_texts_come_newest_first_then_by_id",
        ),
    ),
    Row(
        "a long prompt is not cut silently",
        (
            "models/providers/test_ollama.py::test_the_context_is_sized_to_the_prompt",
            "models/providers/test_ollama.py::test_the_server_is_told_to_cut_nothing",
            "models/providers/test_ollama.py::test_a_prompt_that_an_older_server_cut_in_silence_is_an_overflow",
        ),
    ),
)

TABLES = {
    "work lost, repeated or stuck": WORK,
    "wrong or missing memory": MEMORY,
    "machine, disk and power": MACHINE,
    "money and trust": MONEY,
    "desktop": DESKTOP,
}
