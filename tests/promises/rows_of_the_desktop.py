"""The desktop: what is seen of the agent, and what a login, a panel and a bus may do to it."""

from __future__ import annotations

from tests.promises.row import Row

DESKTOP = (
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
)
