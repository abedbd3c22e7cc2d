// Package provider is the infrastructure provider: Setup registers the reconcilers of CapstanCluster, CapstanMachine
// and CapstanHost with a manager.
//
// CapstanHosts form the inventory. The reconciler of CapstanMachines (package machine) claims a host by writing to its
// spec. Package pool keeps the inventory in memory, and package placement picks the host. The reconciler of
// CapstanHosts (package host) powers on supplied hosts through a Supplier, creates the agent's identity, and clears the
// claim once the host is clean again. A CapstanCluster (package cluster) gets its endpoint from a Balancer or from the
// user, and its failure domains from the zones of the inventory. Package inventory registers local hosts.
//
// Each reconcile, called a pass, runs a list of named steps. Ids such as IM-41 and IC-46 name the rules of Cluster
// API's provider contract that a step implements (module contract lists them). Decisions are pure functions. Each pass
// writes the status once, in one patch. A lost status can be rebuilt from specs and the outside world. A failing pass
// sets condition Reconciled (package failure). A step.Obstacle says why an object cannot proceed.
package provider
