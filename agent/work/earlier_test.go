package work

import (
	"testing"

	"github.com/capstan-dev/capstan/agent/journal"
	"github.com/capstan-dev/capstan/api/v1beta2"
)

// TestFateOf: the remains of an earlier machine are cleaned only if its claim is known to have ended.
func TestFateOf(t *testing.T) {
	const id, other = "capstan://default/h1/0a1b2c3d", "capstan://default/h1/99999999"
	here := func(epoch int64) *v1beta2.CapstanHost {
		h := &v1beta2.CapstanHost{
			Spec: v1beta2.CapstanHostSpec{Epoch: epoch, Claim: &v1beta2.HostClaim{ProviderID: id}},
		}
		h.UID = "here"
		return h
	}
	there := func(epoch int64) *v1beta2.CapstanHost {
		h := here(epoch)
		h.UID = "there"
		return h
	}
	free := func(h *v1beta2.CapstanHost) *v1beta2.CapstanHost {
		h.Spec.Claim = nil
		return h
	}
	claimed := func(h *v1beta2.CapstanHost) *v1beta2.CapstanHost {
		h.Spec.Claim.ProviderID = other
		return h
	}
	annotated := func(key, value string) *v1beta2.CapstanHost {
		h := free(here(3))
		h.Annotations = map[string]string{key: value}
		return h
	}
	supplied := free(here(4))
	supplied.Spec.Supplier = "dock"
	type seen []*v1beta2.CapstanHost
	cases := map[string]struct {
		seen    seen // while the host had the claim
		now     *v1beta2.CapstanHost
		cleaned []string
		want    fate
	}{
		"the claim ended, and the host is free":             {seen{here(3)}, free(here(4)), nil, toClean},
		"the claim ended, and another machine has the host": {seen{here(3)}, claimed(here(4)), nil, toClean},
		"the host was registered again":                     {seen{here(3)}, free(there(0)), nil, toClean},
		"the claim is gone, and no epoch has ended":         {seen{here(3)}, free(here(3)), nil, heldBack},
		"the management cluster is older than the claim":    {seen{here(3)}, claimed(here(2)), nil, heldBack},
		"the host was deleted":                              {seen{here(3)}, nil, nil, heldBack},
		"a journal of an earlier version":                   {nil, free(here(4)), nil, heldBack},
		"the host moved, and the claim ended there":         {seen{here(3), there(3)}, free(there(4)), nil, toClean},
		"the host moved there and back, and the claim ended": {
			seen{here(3), there(3), here(3)},
			free(here(4)),
			nil,
			toClean,
		},
		"the host moved there and back, and no epoch has ended": {
			seen{here(3), there(3), here(3)},
			free(here(3)),
			nil,
			heldBack,
		},
		"a supplied host is destroyed by its supplier": {seen{here(3)}, supplied, nil, heldBack},
		"an administrator accepts that the machine is removed": {
			seen{here(3)},
			annotated(v1beta2.AcceptAnnotation, id),
			nil,
			toClean,
		},
		"an administrator accepts that the machine is removed, and the host was cleaned": {
			seen{here(3)}, annotated(v1beta2.AcceptAnnotation, id), []string{"mount /x"}, toForget,
		},
		"the leftovers of the machine were accepted": {
			seen{here(3)}, annotated(v1beta2.AcceptedAnnotation, id), []string{"mount /x"}, toForget,
		},
		"the leftovers of another machine were accepted": {
			seen{here(3)}, annotated(v1beta2.AcceptedAnnotation, other), []string{"mount /x"}, heldBack,
		},
		"the leftovers of the machine were not accepted": {seen{here(3)}, free(here(4)), []string{"mount /x"}, toClean},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			j, err := journal.Open(t.TempDir(), id)
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			if err := j.Start("write_files", ""); err != nil {
				t.Fatal(err)
			}
			for _, host := range c.seen {
				if err := noteHeld(j, host); err != nil {
					t.Fatal(err)
				}
			}
			if c.cleaned != nil {
				if err := j.Clean(c.cleaned); err != nil {
					t.Fatal(err)
				}
			}
			if got := fateOf(&j.View, c.now); got != c.want {
				t.Errorf("the fate is %q, want %q", got, c.want)
			}
		})
	}
}
