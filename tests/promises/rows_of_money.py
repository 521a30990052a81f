"""Money and trust: what an owner pays, what is sent, and what was agreed to."""

from __future__ import annotations

from tests.promises.row import Row

MONEY = (
    Row(
        "a first run in a cloud says before it what it will take, and a day has a limit",
        (
            "cli/test_models.py::test_the_question_says_what_is_sent_from_where_and_about_how_much",
            "models/money/test_what_is_paid.py::test_a_daily_limit_puts_jobs_off_until_midnight_in_the_owners_zone",
            "models/money/test_mending.py::test_a_limit_that_was_raised_or_removed_ends_the_wait",
        ),
    ),
    Row(
        "every call is metered with its answer, in one transaction, and no crash makes it look cheaper",
        (
            "models/money/test_what_is_paid.py::test_a_call_is_metered_in_the_transaction_that_stores_its_answer",
            "models/money/test_what_is_paid.py::test_usage_is_the_sum_of_what_the_server_counted",
            "models/money/test_what_is_paid.py::test_a_crash_pays_again_only_for_the_call_that_was_under_way",
            "models/money/test_usage_is_told.py::test_a_crash_or_a_lost_memory_makes_nothing_look_cheaper",
        ),
    ),
    Row(
        "consent is looked at when the call is made, and taking it back ends what is under way",
        (
            "models/money/test_before_a_call.py::"
            "test_a_cloud_gets_nothing_without_consent_to_that_very_host_and_no_other_row_asks",
            "models/money/test_before_a_call.py::"
            "test_consent_that_was_withdrawn_since_the_job_began_counts_at_the_call",
            "models/pipeline/test_leaving_a_model_in_the_middle.py::"
            "test_withdrawn_consent_closes_the_clouds_connection_and_nothing_is_sent_there",
            "cli/test_models.py::test_a_cloud_is_sent_nothing_before_its_owner_agrees",
        ),
    ),
    Row(
        "secrets are masked before they are stored and once more before they are sent; private sources go nowhere",
        (
            "models/money/test_before_a_call.py::test_secrets_are_masked_once_more_before_sending",
            "models/money/test_before_a_call.py::test_a_private_source_never_goes_to_a_cloud_whoever_asks",
            "models/pipeline/test_private_sources_stay_here.py::"
            "test_no_word_of_a_private_source_reaches_a_cloud_and_it_is_grown_all_the_same",
        ),
    ),
    Row(
        "a key is in no argument, no log, no error and no core dump",
        (
            "cli/test_keys_do_not_leak.py::test_key_in_use_is_in_no_argument_variable_file_or_crash_record",
            "system/test_core_dumps.py::test_what_holds_a_key_leaves_no_core_although_its_owner_allows_them",
            "models/providers/test_secrets.py::test_a_key_is_in_no_text_of_a_failure_nor_in_what_it_came_from",
        ),
    ),
    Row(
        "a report says what a maintainer needs, and nothing that is its owner's",
        (
            "actions/test_bug_report_tells_nothing.py::test_nothing_that_was_planted_survives",
            "actions/test_bug_report_tells_nothing.py::test_random_names_paths_and_content_never_occur",
            "actions/test_bug_report_tells_nothing.py::test_what_helps_survives",
            "actions/test_bug_report.py::test_a_worker_that_a_library_brings_down_is_in_the_report",
            "ground/test_crash.py::test_every_way_to_fail_leaves_a_dump_that_says_where_and_no_words",
        ),
    ),
)
