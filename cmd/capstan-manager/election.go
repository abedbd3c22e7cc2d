package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// The manager's own Lease and the events about it, in its own namespace only.
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=capstan-system,resources=leases,verbs=get;create;update
// +kubebuilder:rbac:groups="",namespace=capstan-system,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups=events.k8s.io,namespace=capstan-system,resources=events,verbs=create;patch

// electionID names the Lease of an instance that handles all objects.
const electionID = "capstan-manager.infrastructure.capstan.dev"

// election configures how one of several replicas becomes the leader.
type election struct {
	enabled             bool
	namespace           string
	lease, renew, retry time.Duration
}

func (e *election) addFlags(flags *flag.FlagSet) {
	flags.BoolVar(&e.enabled, "leader-elect", false, "let only one of several replicas work at a time")
	flags.StringVar(&e.namespace, "leader-elect-namespace", "",
		"namespace of the Lease that elects the leader; empty: the namespace of the manager's Pod")
	flags.DurationVar(&e.lease, "leader-elect-lease-duration", 15*time.Second,
		"how long the other replicas wait for a silent leader")
	flags.DurationVar(&e.renew, "leader-elect-renew-deadline", 10*time.Second,
		"how long a leader keeps working without the API server")
	flags.DurationVar(&e.retry, "leader-elect-retry-period", 2*time.Second, "pause between two attempts")
}

// apply sets the options of a manager that handles a namespace and a label; empty means all.
func (e *election) apply(options *ctrl.Options, namespace, watchFilter string) {
	options.LeaderElection = e.enabled
	options.LeaderElectionNamespace = e.namespace
	options.LeaderElectionID = leaseName(namespace, watchFilter)
	options.LeaderElectionReleaseOnCancel = true
	options.LeaseDuration, options.RenewDeadline, options.RetryPeriod = &e.lease, &e.renew, &e.retry
}

// leaseName returns the name of the Lease for a shard. Shards that handle different objects must not wait for each
// other, so each has its own Lease.
func leaseName(namespace, watchFilter string) string {
	if namespace == "" && watchFilter == "" {
		return electionID
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", namespace, watchFilter))
	return "shard-" + hex.EncodeToString(sum[:5]) + "." + electionID
}
