//go:build linux

package admission

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// claimOf returns the claim of a machine.
func claimOf(machine string) *infrav1.HostClaim {
	return &infrav1.HostClaim{
		Machine: machine, MachineUID: "1", Cluster: "c", ProviderID: "capstan://x/h/1", Hostname: machine,
	}
}

// TestClaims: the administrator of the inventory enrolls hosts, releases claims and abandons hosts. Only the manager
// and the mover claim hosts and hand agents over.
func TestClaims(t *testing.T) {
	ns := namespace(t)
	bind(t, ns, "capstan-inventory", "operator")
	bind(t, ns, "capstan-mover", "mover")
	bind(t, namespace(t), "capstan-mover", "operator") // in another namespace
	bind(t, ns, "edit", "tenant")
	type edit = func(*infrav1.CapstanHost)
	annotate := func(key, value string) edit {
		return func(h *infrav1.CapstanHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, key, value) }
	}
	claimed := func(h *infrav1.CapstanHost) { h.Spec.Claim = claimOf("m1") }
	both := func(edits ...edit) edit {
		return func(h *infrav1.CapstanHost) {
			for _, e := range edits {
				e(h)
			}
		}
	}
	label := func(h *infrav1.CapstanHost) { h.Labels = map[string]string{"a": "b"} }
	unschedulable := func(h *infrav1.CapstanHost) { h.Spec.Unschedulable = true }
	begin := func(h *infrav1.CapstanHost) { h.Spec.Claim.BootstrapReady = true }
	rename := func(h *infrav1.CapstanHost) { h.Spec.Claim.Hostname = "x" }
	free := func(h *infrav1.CapstanHost) { h.Spec.Claim, h.Spec.Epoch = nil, h.Spec.Epoch+1 }
	released := func(h *infrav1.CapstanHost) { h.Spec.Claim.Released = true }
	all, movers := []string{"operator", "mover", manager, ""}, []string{"mover", manager, ""}
	for name, c := range map[string]struct {
		before edit // prepares an existing host; if it is nil, the test creates a host
		change edit
		may    []string
	}{
		"enroll a host":                {change: func(*infrav1.CapstanHost) {}, may: all},
		"create a claimed host":        {change: claimed, may: movers},
		"create a handed-over host":    {change: annotate(infrav1.HandedOverAnnotation, "x"), may: movers},
		"create a host with an offer":  {change: annotate(infrav1.OfferAnnotation, "x/y"), may: movers},
		"create an abandoned host":     {change: annotate(infrav1.AbandonAnnotation, "x"), may: all},
		"create a host declared clean": {change: annotate(infrav1.AcceptAnnotation, "x"), may: all},
		"set the accepted annotation": {
			before: claimed, change: annotate(infrav1.AcceptedAnnotation, "x"), may: all,
		},
		"create a host with the accepted annotation": {change: annotate(infrav1.AcceptedAnnotation, "x"), may: all},
		"declare a released host clean": {
			before: both(claimed, released), change: annotate(infrav1.AcceptAnnotation, "x"), may: all,
		},
		"label a host":             {before: claimed, change: label, may: all},
		"annotate a host":          {before: claimed, change: annotate("a", "b"), may: all},
		"cordon a host":            {before: claimed, change: unschedulable, may: all},
		"claim a host":             {before: func(*infrav1.CapstanHost) {}, change: claimed, may: movers},
		"clear a claim":            {before: claimed, change: free, may: movers},
		"let the agent bootstrap":  {before: claimed, change: begin, may: movers},
		"change the hostname":      {before: claimed, change: rename, may: movers},
		"release a claim by hand":  {before: claimed, change: released, may: all},
		"release a claim and more": {before: claimed, change: both(released, rename), may: movers},
		"vouch for an agent":       {before: claimed, change: annotate(infrav1.HandedOverAnnotation, "x"), may: movers},
		"make an offer":            {before: claimed, change: annotate(infrav1.OfferAnnotation, "x/y"), may: movers},
		"call an offer off": {
			before: both(claimed, annotate(infrav1.OfferAnnotation, "x/y")),
			change: func(h *infrav1.CapstanHost) { h.Annotations = nil }, may: movers,
		},
		"abandon a host": {before: both(claimed, released), change: annotate(infrav1.AbandonAnnotation, "x"), may: all},
	} {
		t.Run(name, func(t *testing.T) {
			for _, user := range []string{"tenant", "operator", "mover", manager, ""} {
				who := admin
				if user != "" {
					who = as(t, user)
				}
				h := &infrav1.CapstanHost{
					ObjectMeta: metav1.ObjectMeta{
						Namespace:    ns,
						GenerateName: "h-",
					}, Spec: infrav1.CapstanHostSpec{Zone: "a"},
				}
				write := func(o client.Object) error { return who.Create(t.Context(), o) }
				if c.before != nil {
					c.before(h)
					must(t, admin.Create(t.Context(), h))
					write = func(o client.Object) error { return who.Update(t.Context(), o) }
				}
				c.change(h)
				err := write(h)
				if !slices.Contains(c.may, user) {
					refused(t, err)
				} else if err != nil {
					t.Errorf("user %q is refused: %v", user, err)
				}
			}
		})
	}
}
