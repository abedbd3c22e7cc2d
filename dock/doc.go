// Package dock starts and controls a dock: a set of Linux namespaces that holds everything local, namely the management
// plane, local hosts, and their load balancers. It works for root and, through a user namespace, for ordinary users. In
// the machine's own network it only adds listeners: on 127.0.0.1, and at published addresses.
//
// A dock is two processes of the binary capstan-dock: an outer one, which opens those listeners, and PID 1 of the
// namespaces, which does the rest. If either stops, everything stops. All state is in HOME/dock, and the next Start
// restores what should run.
//
//	client, err := dock.Start(ctx, dock.Options{Home: home, BinDir: bin})   // idempotent
//	host, err := client.EnsureHost(ctx, dock.HostSpec{Name: "host-1"})      // created if missing, and running
//	lb, err := client.EnsureBalancer(ctx, "my-cluster")                     // an address of its own, reachable through lb.Relay
//	err = client.SetBackends(ctx, "my-cluster", []string{host.Address + ":6443"})
//	err = client.Shutdown(ctx)                                              // hosts and units first, then the dock
//
// Processes inside the dock (the plane is one of its units) use the same client: Connect(home).
package dock
