"""The table of patches of fairseq, torch, NumPy and Python, with their reasons and tests.

docs/architecture.md prints it (``scripts/patches.py``).
"""

from . import checkpoints, command_line, errors, inputs, interruption, launchers, safe_globals, settings, training
from .patches import Patch, read_literals_only

# fmt: off
PATCHES = (
    # Settings
    Patch("errors that nothing handles", errors.show_errors_as_sentences,
          "Errors that users can fix are shown as tracebacks.",
          "unit/host/test_errors.py::test_a_user_error_is_one_sentence_unless_a_traceback_is_wanted"),
    Patch("torch's safe loader", safe_globals.use_safe_loader,
          "Refuses checkpoints that fairseq itself writes, and an environment variable turns it off.",
          "unit/host/test_safe_globals.py::test_checkpoints_of_fairseq_load_with_the_safe_loader"),
    Patch("eval in all modules of fairseq", read_literals_only,
          "Options are evaluated as code, also options of a checkpoint.",
          "unit/checkpoints/test_literals.py::test_every_module_of_fairseq_reads_literals"),
    Patch("numpy.compat", settings.provide_numpy_compat,
          "Newer NumPy has none, and fairseq's data sets of length buckets and of sentences use numpy.compat.long.",
          "unit/host/test_settings.py::test_numpy_has_the_integer_that_fairseq_uses"),
    Patch("warnings", settings.hide_noise,
          "Every run prints warnings of fairseq, Hydra and torch that users cannot avoid.",
          "unit/host/test_settings.py::test_noise_of_the_host_is_not_shown_but_other_warnings_are"),
    Patch("standard output", settings.make_output_printable,
          "Printing a character that the locale's encoding lacks is an error.",
          "fuzz/test_malformed.py::test_output_where_the_locale_lacks_the_characters"),
    # Command lines and processes
    Patch("fairseq.options:parse_args_and_arch", command_line.parse_args_and_arch,
          "A wrong name is answered by pages of choices, a missing one by a traceback, and --help ignores --arch.",
          "unit/host/test_command_line.py::test_a_misspelt_name_is_corrected", "e7f96c62d0470427"),
    Patch("fairseq.distributed.utils:call_main", interruption.run_command,
          "--bf16 is taken for a TPU's, and Ctrl-C for a crash.",
          "unit/host/test_precision.py::test_a_command_starts_with_valid_half_precision", "7e1e783c5fb2397e"),
    Patch("fairseq_cli.train:validate_and_save", interruption.validate_and_save,
          "Ctrl-C loses all updates since the last checkpoint.",
          "integration/test_resume.py::test_ctrl_c_loses_no_update", "6eaeda1b2df16938"),
    Patch("fairseq.distributed.utils:infer_init_method", launchers.infer_init_method,
          "Each process trains alone if it sees one GPU or none, and overwrites the checkpoints of the others.",
          "unit/host/test_launchers.py::test_the_launcher_sets_the_number_of_processes", "dc3a9f23530de267"),
    Patch("fairseq.distributed.utils:_infer_torch_distributed_launch_init", launchers.init_from_torchrun,
          "Divides by the number of GPUs, which may be 0.",
          "unit/host/test_launchers.py::test_torchrun_without_a_gpu_sets_up_the_process", "7c24bb29c7f7a3d0"),
    Patch("fairseq.distributed.utils:_infer_slurm_init", launchers.init_from_slurm,
          "Fails for tasks that see no GPU or only their own.",
          "unit/host/test_launchers.py::test_tasks_of_slurm_without_a_gpu_are_the_processes", "2525d2831a05305e"),
    # Training
    Patch("fairseq.trainer:Trainer.train_step", training.train_step,
          "Gradients that are NaN or infinite do not name the batch, which is known only here.",
          "unit/host/test_divergence.py::test_gradients_with_nan_name_their_batches", "87f11824816e5f50"),
    Patch("fairseq.data.iterators:GroupedIterator.__init__", training.group_batches,
          "A training that is resumed with another --update-freq leaves out the last batches of the epoch.",
          "fuzz/test_resume_options.py::test_every_pair_is_in_the_epoch_once", "2ccc88aa098ae996"),
    Patch("fairseq.logging.progress_bar:progress_bar", training.open_progress_bar,
          "--log-file is opened once more for every epoch, and then has every line that many times.",
          "unit/host/test_training.py::test_an_epoch_writes_every_line_of_the_log_once", "4858692f88b1394f"),
    # Checkpoints
    Patch("fairseq.checkpoint_utils:verify_checkpoint_directory", checkpoints.verify_checkpoint_directory,
          "A folder that cannot be written is a traceback, and two trainings may write into one.",
          "unit/checkpoints/test_training_lock.py::test_a_second_training_is_refused_by_name", "355d2fd91313c84d"),
    Patch("fairseq.checkpoint_utils:torch_persistent_save", checkpoints.torch_persistent_save,
          "Files are not synchronised to the disk and have no checksums.",
          "unit/checkpoints/test_whole_files.py::test_a_full_disk_leaves_the_old_checkpoint", "a257ae8ee1c78765"),
    Patch("fairseq.file_io:PathManager.copy", checkpoints.copy_checkpoint,
          "checkpoint_best and checkpoint_last are copied piece by piece under their final names.",
          "unit/checkpoints/test_whole_files.py::test_a_full_disk_leaves_the_old_checkpoint", "20671864e36d9c56"),
    Patch("fairseq.checkpoint_utils:load_checkpoint", checkpoints.load_checkpoint,
          "Training starts again if checkpoint_last.pt is missing, and fails if it is damaged.",
          "unit/checkpoints/test_after_a_kill.py::test_a_finished_training_gets_a_last_checkpoint", "bc7cc4344393ea9f"),
    Patch("fairseq.checkpoint_utils:load_checkpoint_to_cpu", checkpoints.load_checkpoint_to_cpu,
          "A damaged file is a traceback, and the configuration in a file is not checked.",
          "unit/checkpoints/test_average_and_export.py::test_an_export_loads_back_identically", "4f169c4bf48459ab"),
    Patch("fairseq.checkpoint_utils:load_model_ensemble_and_task", checkpoints.load_model_ensemble_and_task,
          "A model that does not fit its configuration is a traceback, and parameters may be NaN.",
          "unit/checkpoints/test_loading_models.py::test_a_model_that_diverged_is_refused", "a579b16b0abba804"),
    # Input
    Patch("fairseq.utils:load_align_dict", inputs.alignment_words,
          '--replace-unk without a file reads a file named "@@ ".',
          "unit/host/test_inputs.py::test_replace_unk_without_a_file_means_the_word_itself", "f360c72387a1135b"),
    Patch("fairseq.data.fasta_dataset:FastaDataset._build_index", inputs.refuse_fasta,
          "The name of the file is put into a shell command.",
          "unit/checkpoints/test_loading_models.py::test_no_name_of_a_fasta_file_gets_to_a_shell", "ed0dfe1834191131"),
    Patch("fairseq_cli.interactive:buffered_read", inputs.read_buffers,
          "Bytes that are not UTF-8 are a traceback, and a carriage return shifts all later outputs by a line.",
          "unit/host/test_inputs.py::test_fairseq_interactive_reads_typed_lines", "e777f887fa217b35"),
)
# fmt: on
