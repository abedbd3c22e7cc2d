// Package inplace handles the hooks that update Machines in place instead of replacing them: CanUpdateMachine,
// CanUpdateMachineSet and UpdateMachine (UH-07).
//
// Cluster API first sends a Machine's current and desired state. An extension answers with a patch for the changes that
// it can make on a running machine. If these cover all differences, Cluster API calls UpdateMachine repeatedly until
// the update is done; otherwise it replaces the Machine as if there were no extension. For control planes, Cluster API
// asks about one Machine at a time; for workers, about a MachineSet and its templates.
//
// An [Updater] provides the handlers of all three hooks. Its rules apply to Machines and to templates alike:
//
//	updater := inplace.Updater{
//		Takes:  []inplace.Rule{inplace.Fields(inplace.KubeadmConfig, "files")},
//		Update: func(ctx context.Context, machine inplace.Desired) error { ... },
//	}
//	extension, err := server.New(server.Options{}, updater.Handlers("files")...)
//
// The handlers compute the patches: a patch contains only desired changes and stays within the spec. A management
// cluster can have only one extension for each of these hooks; Cluster API refuses to update Machines if it finds two
// for the same hook.
//
// Ids such as UH-07 name rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package inplace
