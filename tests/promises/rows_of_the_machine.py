"""What machines and disks did to systems like this one: the third table of ``rows``."""

from __future__ import annotations

from tests.promises.row import Row

MACHINE = (
    Row(
        "one process migrates before the others start, and connections live long",
        (
            "promises/test_connections.py::test_connections_live_long_and_nobody_opens_the_memory_as_a_file",
            "db/test_migrations.py::test_processes_that_start_together_migrate_once",
        ),
    ),
    Row(
        "a full disk is told once, waited for, and survived without anybody doing anything",
        (
            "promises/test_disk_full.py::test_a_full_disk_is_waited_for_and_nothing_is_lost_or_blamed",
            "promises/test_disk_full.py::test_a_full_disk_is_told_once_however_often_it_was_tried",
            "db/test_faults.py::test_the_pauses_are_those_of_the_design",
            "worker/test_backoff.py::test_a_worker_that_comes_up_on_a_full_disk_waits_instead_of_ending",
            "ground/test_logs.py::test_the_same_message_collapses_after_five_a_minute_and_is_counted",
        ),
    ),
    Row(
        "a damaged memory is confirmed, moved aside and grown anew, and its owner is told",
        (
            "supervisor/test_broken_memory.py::test_damaged_memory_is_moved_aside_and_begun_anew",
            "supervisor/test_broken_memory.py::test_pages_overwritten_under_a_running_agent_are_noticed",
            "supervisor/test_broken_memory.py::test_second_damage_within_an_hour_waits_for_the_owner",
            "cli/test_damaged_memories.py::test_damage_met_by_a_command_is_mended_by_the_running_agent",
        ),
    ),
    Row(
        "no model is asked where nothing is new, whatever the clock says",
        (
            "promises/test_nothing_new.py::test_no_model_is_asked_without_new_content_however_long_it_runs",
            "promises/test_nothing_new.py::test_touched_files_ask_no_model",
            "promises/test_large_home.py::test_second_look_makes_nothing_again",
        ),
    ),
    Row(
        "the work is done at low priority, one call of a model at a time",
        (
            "worker/test_worker_process.py::test_low_priority",
            "gate/test_gate.py::test_default_llm_permits_is_one",
            "gate/test_permits_across_processes.py::test_eight_processes_never_make_more_calls_than_there_are_permits",
            "supervisor/test_power_agent.py::"
            "test_on_battery_what_is_cheap_is_done_and_what_loads_the_machine_waits_for_its_owner_or_the_mains",
            "supervisor/test_power_policy.py::test_what_a_machine_allows",
        ),
    ),
    Row(
        "the agent's own work is not taken for pressure, and no state flickers",
        (
            "supervisor/test_power_own_cpu.py::test_its_own_work_holds_nobody_back_and_a_strangers_does_until_it_ends",
            "supervisor/test_power_policy.py::test_no_noise_changes_the_mode_faster_than_the_dwell",
        ),
    ),
    Row(
        "another setting is in force at the next job, without a restart",
        (
            "worker/test_worker_process.py::test_the_intent_is_read_again_for_each_job",
            "models/pipeline/test_leaving_a_model_in_the_middle.py::"
            "test_switching_by_hand_closes_the_clouds_connection_and_the_next_call_goes_to_the_new_server",
            "models/pipeline/test_leaving_a_model_in_the_middle.py::"
            "test_withdrawn_consent_closes_the_clouds_connection_and_nothing_is_sent_there",
        ),
    ),
    Row(
        "locks die with the process that holds them",
        (
            "supervisor/test_control_channel.py::test_lock_is_free_the_moment_its_holder_dies",
            "supervisor/test_control_channel.py::test_what_a_killed_supervisor_left_behind_is_no_obstacle",
            "gate/test_permits_across_processes.py::test_a_killed_holder_is_replaced_within_100_ms_by_a_person",
            "db/test_turn.py::test_a_holder_that_dies_frees_its_turn_and_one_that_hangs_is_waited_for_half_a_second",
        ),
    ),
    Row(
        "a broken settings file stops nothing: the last good copy is in force, and it is said",
        (
            "promises/test_agent_goes_on.py::test_a_broken_settings_file_does_not_stop_the_agent",
            "ground/test_intent.py::test_a_broken_file_leaves_the_last_good_copy_in_force_and_says_so",
            "ground/test_intent.py::test_a_broken_file_is_never_written_over",
        ),
    ),
    Row(
        "no process outlives its supervisor, however that ends",
        (
            "gateway/test_with_the_agent.py::test_the_page_ends_with_an_agent_that_is_killed",
            "supervisor/test_killed_supervisor.py::test_nothing_is_left_and_a_new_start_continues",
            "supervisor/test_stop.py::test_sigterm_with_four_busy_workers_and_c_calls_ends_in_under_four_seconds",
            "system/test_processes.py::test_child_ends_with_its_parent",
        ),
    ),
    Row(
        "nothing is ended by its name",
        (
            "ground/test_house.py::test_nobody_kills_by_name",
            "supervisor/test_control_channel.py::test_pid_counts_only_with_its_start",
        ),
    ),
    Row(
        "no port is fixed: agents of two homes run side by side",
        (
            "promises/test_connections.py::test_two_agents_share_no_port",
            "gateway/test_process.py::test_a_port_that_is_taken_is_no_hindrance",
            "gateway/test_process.py::test_killed_it_leaves_nothing_that_misleads",
            "gateway/test_links_and_sessions.py::test_two_agents_of_one_machine_have_cookies_of_their_own",
        ),
    ),
    Row(
        "an SQLite that can damage a shared memory is refused",
        (
            "db/test_connection.py::test_an_sqlite_with_the_wal_reset_race_is_refused",
            "db/test_connection.py::test_the_installed_sqlite_is_new_enough",
        ),
    ),
)
