// Package topology makes handlers of the topology mutation hooks from typed parts.
//
// A [Mutation] changes templates of one kind as values of their Go type; [GeneratePatches] makes one handler of
// several, and of what they changed the shortest patches. A [Validation] looks at templates, see [ValidateTopology]. A
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
// Answers follow the contract without work of the author: one patch for each template that changed and none for others,
// only in the places where patches are allowed (UH-02), the same for the same request (UH-03).
package topology
