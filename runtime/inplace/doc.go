// Package inplace answers the hooks by which Machines are updated in place instead of being replaced: CanUpdateMachine,
// CanUpdateMachineSet and UpdateMachine (UH-07).
//
// Cluster API asks first, with what a Machine is and what it should be. An extension answers with a patch of what it
// can change on a running machine. If nothing is left that differs, Cluster API calls UpdateMachine again and again
// until it is done; else it replaces the Machine, as if there were no extension. Control planes are asked about one
// Machine at a time, workers by their MachineSets, with templates.
//
// An [Updater] is all three answers in one. What it takes over is said once, for Machines and for templates:
//
//	updater := inplace.Updater{
//		Takes:  []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files")},
//		Update: func(ctx context.Context, machine inplace.Desired) error { ... },
//	}
//	extension, err := server.New(server.Options{}, updater.Handlers("files")...)
//
// Patches are made here: they hold what is wanted and nothing else, and stay within the spec. There can be one
// extension for these hooks in a management cluster only; Cluster API refuses to update Machines if it finds two for
// the same one.
package inplace
