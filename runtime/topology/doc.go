// Package topology makes handlers of the topology mutation hooks from typed functions.
//
// A [Mutation] changes templates of one kind as values of their Go type. [GeneratePatches] combines several into one
// handler, which answers with the shortest patches. A [Validation] checks templates, see [ValidateTopology]. A
// [Variable] is a variable of a ClusterClass as a Go type: its schema is derived from the type, and handlers get its
// value as that type.
//
//	var memory = topology.Define[Memory]("memory", topology.Required())
//
//	server.Handle(hook.DiscoverVariables, "variables", topology.DiscoverVariables(memory)),
//	server.Handle(hook.GeneratePatches, "patches", topology.GeneratePatches(
//		topology.Mutate(topology.Kind("infrastructure.capstan.dev", "CapstanMachineTemplate"),
//			func(ctx context.Context, template *infrav1.CapstanMachineTemplate, input topology.Input) error {
//				value, _, err := memory.Get(input.Variables)
//				...
//			}))),
//
// Handlers follow the contract without the author's help: they answer with one patch for each template that changed
// and none for others, change only what patches may change (UH-02), and give the same answer for the same request
// (UH-03).
//
// Ids such as UH-02 are rules of the Runtime SDK's contract; RULES.md in the module's root explains them.
package topology
