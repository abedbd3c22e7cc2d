//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// identity is who makes an attempt, or who is allowed to do the same thing.
type identity string

// The identities. The last four are the rightful ones.
const (
	// hostAccount is the account of the agent on the host that the cluster's worker is on.
	hostAccount identity = "a host's account"
	// hostRoot is root on that host. Bootstrap data runs as this user.
	hostRoot identity = "root on a host"
	// tenant administers one namespace of the plane.
	tenant identity = "a tenant"
	// workloadAdmin administers a workload cluster.
	workloadAdmin identity = "a workload cluster's administrator"
	// nobody has no credential.
	nobody identity = "nobody"
	// extension is a runtime extension that somebody registered.
	extension identity = "an extension"
	// otherUser is another ordinary user of the machine.
	otherUser identity = "another user of the machine"

	// enroller may register and delete hosts in one namespace, and nothing else.
	enroller identity = "somebody who enrolls hosts"
	// author may write clusters, their classes and configurations in one namespace, and read no Secret.
	author identity = "somebody who writes clusters"

	// otherHost is the account of the host that the control plane machine is on.
	otherHost identity = "the other host's account"
	// neighbour, the other tenant, administers another namespace of the plane.
	neighbour identity = "the other tenant"
	// manager is the process of the plane that runs all controllers.
	manager identity = "the manager"
	// admin is the user who has the plane's kubeconfig.
	admin identity = "the plane's administrator"
)

// attempt is one thing that somebody tries. Boundary, who and mechanism together are unique.
type attempt struct {
	boundary  string
	who       identity
	mechanism string
	// try returns nil if the attempt got through, a *refusal if the boundary held, and another error if neither is
	// certain.
	try func(context.Context, *world) error
	// control performs the same action in the name of the rightful identity, without lasting effect. It must return nil.
	control func(context.Context, *world) error
	// accepted says why the attempt may get through. Such an attempt must succeed, because an outdated reason misleads.
	accepted string
	// root says that only root can prepare the attempt.
	root bool
}

// refusal says how a boundary refused an attempt.
type refusal struct{ how string }

func (r *refusal) Error() string { return "refused: " + r.how }

// refused returns a refusal.
func refused(format string, args ...any) error { return &refusal{how: fmt.Sprintf(format, args...)} }

// name is unique among all attempts.
func (a attempt) name() string { return fmt.Sprintf("%s/%s/%s", a.boundary, a.who, a.mechanism) }

// verdict is the verdict on an attempt.
type verdict string

const (
	held     verdict = "held"
	accepted verdict = "accepted"
	broken   verdict = "GOT THROUGH"
	unknown  verdict = "UNKNOWN"
	notRun   verdict = "not run"
)

// judge tries an attempt and its control.
func judge(ctx context.Context, w *world, a attempt) (verdict, string) {
	var no *refusal
	err := a.try(ctx, w)
	switch {
	case err == nil && a.accepted != "":
		return accepted, a.accepted
	case err == nil:
		return broken, ""
	case !errors.As(err, &no):
		return unknown, err.Error()
	case a.accepted != "":
		return unknown, "the attempt is listed as accepted, but was " + no.Error() + ": remove its reason"
	}
	if err := a.control(ctx, w); err != nil {
		return unknown, fmt.Sprintf("the control fails, too: %v", err)
	}
	return held, no.how
}

// all returns all attempts on a plane with a cluster.
func all() []attempt {
	var list []attempt
	for _, some := range [][]attempt{
		hostSecrets(), hostState(), hostTokens(), hostReturns(), hostRights(), hostLeases(), hostPlane(),
		tenantNamespaces(), tenantRights(), tenantClaims(), enrollerNames(), tenantData(), authorFiles(),
		rootOnHost(), fromHostNetwork(), withoutCredentials(), workload(), otherUsers(), hostile(), wayOut(),
	} {
		list = append(list, some...)
	}
	return list
}

// atLeast is the minimum number of distinct attempts.
const atLeast = 150

func TestAttemptsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range all() {
		switch {
		case seen[a.name()]:
			t.Errorf("%s is in the list twice", a.name())
		case a.try == nil || a.control == nil && a.accepted == "":
			t.Errorf("%s has no try or no control", a.name())
		}
		seen[a.name()] = true
	}
	if len(seen) < atLeast {
		t.Errorf("%d attempts, want at least %d", len(seen), atLeast)
	}
}
