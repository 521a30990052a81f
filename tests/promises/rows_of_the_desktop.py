"""The desktop: what is seen of the agent, and what a login, a panel and a bus may do to it."""

from __future__ import annotations

from tests.promises.row import Row

DESKTOP = (
    Row(
        "a memory that is damaged, missing, locked or newer keeps neither the doctor nor a report from its work",
        (
            "actions/test_bug_report_tells_nothing.py::test_nothing_survives_where_something_is_broken",
            "actions/test_bug_report.py::test_a_home_that_was_never_used_has_a_report",
            "actions/test_bug_report.py::test_a_memory_that_another_program_keeps_for_itself_is_waited_for_briefly",
            "actions/test_bug_report.py::test_an_agent_that_hangs_is_waited_for_briefly",
            "cli/test_records.py::test_a_report_needs_neither_memory_nor_sound_settings",
        ),
    ),
    Row(
        "logs have date, process and job on each line, one file for each process, and cannot fill the disk",
        (
            "ground/test_logs.py::test_a_line_carries_time_with_offset_level_pid_process_job_and_kind",
            "ground/test_logs.py::test_the_same_message_collapses_after_five_a_minute_and_is_counted",
            "ground/test_logs.py::test_a_librarys_flood_collapses_by_its_template",
            "ground/test_logs.py::test_all_logs_together_stay_under_the_limit",
            "ground/test_crash.py::test_dumps_are_bounded_in_number_and_size",
        ),
    ),
    Row(
        "a notification service that is absent, fails to start or never answers costs nobody anything",
        (
            "system/test_notifications.py::test_no_notification_service_is_no_trouble",
            "system/test_notifications.py::test_no_bus_or_a_dead_one_is_no_trouble",
            "system/test_notifications.py::test_a_service_that_never_answers_costs_some_seconds_and_leaves_nothing",
            "system/test_notifications.py::test_a_bus_that_accepts_and_says_nothing_costs_some_seconds",
            "supervisor/test_notices.py::test_a_desktop_that_hangs_keeps_nobody_waiting",
            "supervisor/test_notices_on_a_bus.py::"
            "test_a_silent_desktop_keeps_the_agent_neither_from_its_work_nor_from_its_end",
            "supervisor/test_notices.py::test_there_are_never_more_than_four_in_an_hour_and_the_rest_is_told_later",
            "supervisor/test_notices.py::test_a_thousand_flips_are_one_notification_an_hour",
        ),
    ),
    Row(
        "nothing starts at login unasked, and an entry that its owner took away or switched off stays so",
        (
            "cli/test_autostart.py::test_it_is_off_until_it_is_switched_on_and_is_read_back_from_the_system",
            "cli/test_autostart.py::test_the_start_of_the_agent_mends_an_entry_and_makes_none",
            "cli/test_setup.py::test_every_question_can_be_skipped_and_then_nothing_was_changed",
            "system/test_autostart_elsewhere.py::test_an_entry_that_its_owner_took_away_is_not_made_again",
            "system/test_autostart_xdg.py::test_switched_off_in_the_settings_is_off_for_systemd_and_for_us",
            "system/test_autostart_elsewhere.py::test_switched_off_on_macos_is_read_back_and_stays_through_a_repair",
            "system/test_autostart_elsewhere.py::test_switched_off_in_task_manager_is_read_back_and_survives_a_repair",
        ),
    ),
    Row(
        "the login entry names what is there after the session, and is mended where the program has moved",
        (
            "system/test_autostart_xdg.py::test_an_appimage_is_named_by_its_file_and_not_by_its_mount",
            "system/test_autostart_elsewhere.py::test_a_moved_program_is_told_and_mended_at_the_start",
            "system/test_autostart_xdg.py::"
            "test_the_program_moved_and_the_entry_is_mended_with_all_else_that_its_owner_set",
            "system/test_autostart_xdg.py::test_systemd_makes_a_unit_that_starts_the_program",
            "system/test_autostart_xdg.py::test_glib_starts_the_program_with_its_words",
        ),
    ),
    Row(
        "nothing is read before its owner has named it",
        (
            "promises/test_nothing_is_read_before_it_is_named.py::"
            "test_nothing_of_the_owners_is_opened_before_a_source_is_named",
            "cli/test_setup.py::test_suggesting_opens_nothing_of_what_it_suggests",
        ),
    ),
    Row(
        "an icon needs no GTK, no X and no display, and one that nobody can click is shown nowhere",
        (
            "desktop/test_tray_on_a_bus.py::test_registered_within_a_second_without_a_display",
            "desktop/test_tray_on_a_bus.py::test_menu_is_read_over_dbusmenu",
            "desktop/test_choosing_a_backend.py::test_the_deaf_icon_of_xorg_is_no_way_at_all",
            "desktop/test_real_panel.py::test_the_icon_is_seen_in_a_real_panel_and_its_menu_pauses_the_agent",
        ),
    ),
    Row(
        "a desktop without a place for icons, without a bus, or whose bus dies is a state with a reason",
        (
            "desktop/test_tray_on_a_bus.py::test_no_bus_is_impossible_and_no_crash",
            "desktop/test_tray_on_a_bus.py::test_a_dead_bus_is_impossible_and_no_crash",
            "desktop/test_tray_on_a_bus.py::test_a_bus_that_dies_later_is_the_same",
            "desktop/test_tray_and_agent.py::test_without_a_panel_the_agent_runs_and_says_why_there_is_no_icon",
        ),
    ),
    Row(
        "the tray is a process of its own: what kills it, or fails in it, costs the agent nothing",
        (
            "desktop/test_tray_and_agent.py::"
            "test_a_killed_tray_is_back_in_three_seconds_and_a_killed_agent_takes_it_along",
            "desktop/test_pystray_backend.py::test_a_notification_service_that_fails_ends_the_icon_and_hangs_nothing",
            "desktop/test_tray_on_a_bus.py::"
            "test_without_a_notification_service_a_click_that_fails_is_in_the_state_line",
            "desktop/test_clicks.py::test_what_fails_is_a_notification_and_a_line_and_never_a_crash",
        ),
    ),
    Row(
        "an open menu is left alone: one thread owns it, and it is told only of what has changed",
        (
            "desktop/test_tray_on_a_bus.py::test_nothing_is_said_to_the_panel_where_nothing_changed",
            "desktop/test_tray_on_a_bus.py::test_a_local_model_is_used_at_a_click_and_the_mark_follows",
            "desktop/test_pystray_backend.py::test_only_what_changed_is_changed",
            "desktop/test_pystray_backend.py::"
            "test_windows_icon_is_changed_in_its_own_thread_and_not_under_an_open_menu",
        ),
    ),
    Row(
        "a panel that is late at login, or starts anew, gets the icon",
        (
            "desktop/test_panels_that_come_and_go.py::test_a_late_panel_is_waited_for",
            "desktop/test_tray_on_a_bus.py::test_a_panel_that_is_late_gets_the_icon",
            "desktop/test_tray_on_a_bus.py::test_a_panel_that_starts_anew_gets_the_icon_again",
        ),
    ),
    Row(
        "the supervisor's death is that of tray, page and workers",
        (
            "supervisor/test_companion_processes.py::"
            "test_kill_9_of_the_supervisor_leaves_neither_tray_nor_page_nor_worker",
            "system/test_processes.py::test_child_ends_with_its_parent",
        ),
    ),
    Row(
        "what crashes is started again at once, counted, and told of; what hangs or is missing costs nobody a second",
        (
            "supervisor/test_companion_processes.py::test_killed_tray_is_back_in_three_seconds_and_the_agent_works_on",
            "supervisor/test_companion_processes.py::test_page_is_there_when_it_is_asked_for_and_not_before",
            "supervisor/test_companion_processes.py::"
            "test_tray_that_ends_again_and_again_is_given_up_and_the_agent_works_on",
            "supervisor/test_companion_processes.py::test_tray_that_is_not_installed_is_a_state_with_a_reason",
            "supervisor/test_companion_processes.py::test_tray_that_hangs_keeps_nobody_waiting",
            "supervisor/test_companion_rules.py::"
            "test_first_restart_is_immediate_then_backed_off_and_after_five_it_is_tried_slowly",
            "system/test_companion_line.py::test_nobody_waits_for_who_never_reads_and_a_late_reader_hears_the_newest",
            "actions/test_doctor_asks_the_agent.py::test_a_tray_that_ends_again_and_again_is_found",
        ),
    ),
    Row(
        "the end of a session is answered at once, and used to put the work away",
        (
            "system/test_session_end.py::test_the_question_is_answered_with_yes_at_once_and_ends_nothing",
            "system/test_session_end.py::test_a_session_that_another_program_keeps_goes_on",
            "system/test_session_end.py::test_an_agent_that_does_not_end_holds_nobody_up_for_long",
            "supervisor/test_stop.py::test_the_end_of_a_session_of_windows_ends_the_agent_in_time",
        ),
    ),
    Row(
        "a frozen build starts itself only as often as it means to",
        (
            "frozen/test_parts.py::test_a_child_process_is_recognised_before_anything_else",
            "frozen/test_frozen_build.py::test_killing_its_supervisor_leaves_no_process",
            "frozen/test_frozen_build.py::test_its_hidden_children_are_itself",
        ),
    ),
    Row(
        "a program that is started without stdin, stdout and stderr does the same as with them",
        (
            "frozen/test_closed_streams.py::test_a_command_does_the_same_without_streams",
            "frozen/test_closed_streams.py::test_the_program_itself_does_the_same_without_streams",
            "frozen/test_frozen_build.py::test_it_passes_its_own_test_with_all_streams_closed_and_no_desktop",
            "frozen/test_frozen_build.py::test_it_passes_its_own_test_on_a_desktop_with_closed_streams",
        ),
    ),
    Row(
        "what a frozen build opens gets its owner's environment, not the build's libraries",
        (
            "frozen/test_frozen_build.py::test_what_it_opens_gets_the_environment_of_its_owner",
            "system/test_streams_and_launch.py::test_frozen_loader_path_is_put_back_to_the_owner_s",
        ),
    ),
    Row(
        "a frozen build is one folder that is not packed, with nothing in it that it has no use for",
        (
            "frozen/test_parts.py::test_a_build_is_one_folder_that_is_not_packed",
            "frozen/test_frozen_build.py::test_it_carries_nothing_of_tests_and_no_second_sqlite",
        ),
    ),
    Row(
        "the installer sees an agent that has no window, has it end by its own command, and replaces nothing before",
        (
            "frozen/test_installer.py::test_it_compiles_installs_updates_and_removes_under_wine",
            "frozen/test_installer.py::test_it_asks_the_agent_to_end_by_its_own_command_before_it_replaces_or_removes",
            "system/test_instance_mutex.py::test_the_agent_holds_the_mutex_that_the_installer_looks_for",
            "system/test_instance_mutex.py::test_a_start_of_the_agent_shows_that_it_runs",
        ),
    ),
    Row(
        "a keyring that is late, locked, absent or asks what nobody answers is a state, waited for five seconds",
        (
            "system/test_keyring_secret_service.py::test_locked_keyring_without_a_screen_says_so_at_once",
            "system/test_keyring_secret_service.py::test_question_that_nobody_answers_is_given_up_after_five_seconds",
            "system/test_keyring_secret_service.py::test_login_without_a_bus_has_no_keyring",
        ),
    ),
    Row(
        "all keys are one item of the keyring, so that its owner is asked once",
        ("system/test_keyring.py::test_all_keys_are_one_item",),
    ),
    Row(
        "what was missed is caught up once after waking, when the network has had its time",
        (
            "supervisor/test_sleep_and_time.py::"
            "test_after_sleep_leases_get_one_renewal_and_catching_up_starts_once_after_thirty_seconds",
        ),
    ),
    Row(
        "a permit is never waited for by who holds it, and no lock lies on a network folder",
        (
            "gate/test_permits_across_processes.py::test_threads_of_one_process_share_the_permits_too",
            "gate/test_gate.py::test_network_folders_are_refused_where_they_can_be_seen",
        ),
    ),
)
