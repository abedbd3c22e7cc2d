package main

import "slices"

// wanted describes a figure and the limits that the project has set itself.
type wanted struct {
	id   string
	name string
	unit string
	// bound must be kept, and aim should be reached; 0 means none. They are maxima, or minima if atLeast is set.
	bound, aim float64
	atLeast    bool
}

// group is a part of the table.
type group struct {
	title   string
	figures []wanted
}

// Units that mean a time or a ratio.
const (
	seconds = "s"
	times   = "times"
)

// catalog lists every figure, in the order of the table.
var catalog = []group{
	{"The plane", []wanted{
		{id: "up", name: "up, empty directory", unit: seconds, bound: 12, aim: 8},
		{id: "up-again", name: "up, existing data", unit: seconds, bound: 8, aim: 5},
	}},
	{"A cluster of one control plane and two workers, with real pods", []wanted{
		{id: "create", name: "create, to all Nodes Ready: median of 3", unit: seconds, bound: 40, aim: 20},
		{id: "create-service", name: "create, to a Service fetched by its name: median of 3", unit: seconds, bound: 25,
			aim: 18},
		{id: "memory", name: "memory (PSS) of plane and cluster, idle", unit: "GiB", bound: 1.5, aim: 1.25},
		{id: "idle", name: "processor time of plane and cluster, idle for a minute", unit: "% of one core", bound: 25,
			aim: 15},
		{id: "pod-50", name: "a pod from created to Ready, image present: median of 100", unit: seconds, bound: 1},
		{id: "pod-99", name: "the same: 99th percentile", unit: seconds, bound: 2},
		{id: "pods-100", name: "100 pods on two Nodes, to all Ready", unit: seconds, bound: 20},
	}},
	{"The life of a cluster", []wanted{
		{id: "scale-workers", name: "workers 2 to 3", unit: seconds, bound: 10, aim: 5},
		{id: "replace", name: "a deleted worker replaced", unit: seconds, bound: 12, aim: 6},
		{id: "scale-control-plane", name: "control plane 1 to 3", unit: seconds, bound: 60, aim: 40},
		{id: "delete", name: "delete the cluster", unit: seconds, bound: 10, aim: 3},
		{id: "create-ha", name: "create 3 + 2, to all Nodes Ready", unit: seconds, bound: 100, aim: 60},
		{id: "memory-ha", name: "memory (PSS) of plane and 3 + 2", unit: "GiB"},
		{id: "delete-ha", name: "delete 3 + 2", unit: seconds},
	}},
	{"Containers and images", []wanted{
		{id: "container", name: "a container from its call to its first output, with the default seccomp filter", unit: "ms"},
		{id: "container-crun", name: "the same, against crun", unit: times, bound: 1},
		{id: "container-bare", name: "the same without a filter", unit: "ms"},
		{id: "container-bare-crun", name: "the same without a filter, against crun", unit: times, bound: 1},
		{id: "supervisor", name: "memory (PSS) of a container's supervisor", unit: "KiB", bound: 4096},
		{id: "load", name: "loading an image of 100 MB, against tar -x of its layer", unit: times, bound: 2},
		{id: "load-gzip", name: "the same, packed by gzip", unit: times, bound: 2},
	}},
	{"Services", []wanted{
		{id: "stream-near", name: "a stream through a Service, one host, against the direct way", unit: times, bound: 0.8,
			atLeast: true},
		{id: "stream-far", name: "the same, two hosts", unit: times, bound: 0.8, atLeast: true},
		{id: "request-near", name: "requests in a second through a Service, one host, against the direct way", unit: times,
			bound: 0.8, atLeast: true},
		{id: "request-far", name: "the same, two hosts", unit: times, bound: 0.8, atLeast: true},
	}},
	{"The provider", []wanted{
		{id: "claim", name: "a claim among 10,000 hosts, against one among 100", unit: times, bound: 1.5},
	}},
	{"The build", []wanted{
		{id: "build", name: "bundle from an empty cache", unit: seconds},
		{id: "build-before", name: "the same, against the commit before real pods", unit: times, bound: 1.4},
	}},
}

// find returns the catalog's entry for a figure.
func find(id string) (wanted, bool) {
	for _, g := range catalog {
		if i := slices.IndexFunc(g.figures, func(w wanted) bool { return w.id == id }); i >= 0 {
			return g.figures[i], true
		}
	}
	return wanted{}, false
}
