package handover

import (
	"maps"
	"testing"

	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

const label, block, leave = clusterctlv1.ClusterctlMoveLabel, clusterctlv1.BlockMoveAnnotation,
	clusterctlv1.DeleteForMoveAnnotation

func accepted(offer string) *infrav1.HandOverReport {
	return &infrav1.HandOverReport{Offer: offer, Accepted: true}
}

// TestMark checks that the label and annotations of a host match its claim and its agent's report.
func TestMark(t *testing.T) {
	type values = map[string]string
	for name, c := range map[string]struct {
		supplier            string
		claimed             bool
		labels, annotations values
		report              *infrav1.HandOverReport
		wantLabels, want    values
	}{
		"a free host stays": {},
		"a claimed host moves, but not before its agent knows the target": {
			claimed: true, wantLabels: values{label: ours}, want: values{block: ours},
		},
		"a local host never moves, and neither do its machines": {
			supplier: infrav1.SupplierDock, claimed: true, annotations: values{infrav1.HandedOverAnnotation: "uid"},
			wantLabels: values{label: ours}, want: values{infrav1.HandedOverAnnotation: "uid", block: ours},
		},
		"somebody vouched for the agent": {
			claimed: true, annotations: values{infrav1.HandedOverAnnotation: "uid", block: ours},
			wantLabels: values{label: ours}, want: values{infrav1.HandedOverAnnotation: "uid"},
		},
		"the agent has accepted the offer": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "uid/1", block: ours}, report: accepted("uid/1"),
			wantLabels: values{
				label: ours,
			}, want: values{infrav1.OfferAnnotation: "uid/1", infrav1.HandedOverAnnotation: "uid/1"},
		},
		"the agent can't accept the offer any more": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "uid/1", infrav1.HandedOverAnnotation: "uid/1"},
			report:     &infrav1.HandOverReport{Offer: "uid/1", Message: "expired"},
			wantLabels: values{label: ours}, want: values{infrav1.OfferAnnotation: "uid/1", block: ours},
		},
		"the agent no longer reports anything about the offer": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "uid/1", infrav1.HandedOverAnnotation: "uid/1"},
			wantLabels: values{label: ours}, want: values{infrav1.OfferAnnotation: "uid/1", block: ours},
		},
		"the agent has accepted the next offer": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "uid/2", infrav1.HandedOverAnnotation: "uid/1"},
			report: accepted("uid/2"),
			wantLabels: values{
				label: ours,
			}, want: values{infrav1.OfferAnnotation: "uid/2", infrav1.HandedOverAnnotation: "uid/2"},
		},
		"somebody has removed the offer": {
			claimed: true, annotations: values{infrav1.HandedOverAnnotation: "uid/1"}, report: accepted("uid/1"),
			wantLabels: values{label: ours}, want: values{block: ours},
		},
		"somebody vouched for an agent that can't accept the offer": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "uid/1", infrav1.HandedOverAnnotation: "uid"},
			report:     &infrav1.HandOverReport{Offer: "uid/1", Message: "no"},
			wantLabels: values{label: ours}, want: values{infrav1.OfferAnnotation: "uid/1", infrav1.HandedOverAnnotation: "uid"},
		},
		"somebody vouched for an agent that accepts the offer": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "uid/1", infrav1.HandedOverAnnotation: "uid"},
			report:     accepted("uid/1"),
			wantLabels: values{label: ours}, want: values{infrav1.OfferAnnotation: "uid/1", infrav1.HandedOverAnnotation: "uid"},
		},
		"a hand-over from before a move": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "earlier/1", infrav1.HandedOverAnnotation: "earlier/1"},
			report: accepted("earlier/1"),
			wantLabels: values{
				label: ours,
			}, want: values{infrav1.OfferAnnotation: "earlier/1", infrav1.HandedOverAnnotation: "earlier/1", block: ours},
		},
		"the agent has accepted an earlier offer": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "uid/2"}, report: accepted("uid/1"),
			wantLabels: values{label: ours}, want: values{infrav1.OfferAnnotation: "uid/2", block: ours},
		},
		"the agent can't accept the offer": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "uid/1"},
			report:     &infrav1.HandOverReport{Offer: "uid/1", Message: "no"},
			wantLabels: values{label: ours}, want: values{infrav1.OfferAnnotation: "uid/1", block: ours},
		},
		"an offer that the agent accepted before a move": {
			claimed: true, annotations: values{infrav1.OfferAnnotation: "earlier/1"}, report: accepted("earlier/1"),
			wantLabels: values{label: ours}, want: values{infrav1.OfferAnnotation: "earlier/1", block: ours},
		},
		"an offer that was called off and that the agent still reports": {
			claimed: true, report: accepted("uid/1"), wantLabels: values{label: ours}, want: values{block: ours},
		},
		"a free host is not handed over": {
			annotations: values{infrav1.OfferAnnotation: "uid/1"}, report: accepted("uid/1"),
			want: values{infrav1.OfferAnnotation: "uid/1"},
		},
		"a local host accepts no offer": {
			supplier: infrav1.SupplierDock, claimed: true, annotations: values{infrav1.OfferAnnotation: "uid/1"},
			report:     accepted("uid/1"),
			wantLabels: values{label: ours}, want: values{infrav1.OfferAnnotation: "uid/1", block: ours},
		},
		"the mover has marked the host, and ended before it deleted the host": {
			claimed: true, annotations: values{leave: ""}, report: accepted("uid/1"), wantLabels: values{label: ours},
			want: values{leave: ""},
		},
		"a mark that an earlier move left": {
			claimed: true, annotations: values{leave: ""}, report: accepted("earlier/1"), wantLabels: values{label: ours},
			want: values{leave: "", block: ours},
		},
		"somebody vouched for the agent before a move": {
			claimed: true, annotations: values{infrav1.HandedOverAnnotation: "earlier"}, wantLabels: values{label: ours},
			want: values{infrav1.HandedOverAnnotation: "earlier", block: ours},
		},
		"the machine has gone": {
			labels: values{label: ours, "a": "b"}, annotations: values{block: ours}, wantLabels: values{"a": "b"},
			want: values{},
		},
		"what others have set stays on a free host": {
			labels: values{label: ""}, annotations: values{block: "me"}, wantLabels: values{label: ""},
			want: values{block: "me"},
		},
		"what others have set stays on a claimed host": {
			claimed: true, labels: values{label: ""}, annotations: values{block: "me", infrav1.HandedOverAnnotation: "uid"},
			wantLabels: values{label: ""}, want: values{block: "me", infrav1.HandedOverAnnotation: "uid"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.CapstanHost{}
			host.UID, host.Labels, host.Annotations, host.Spec.Supplier = "uid", c.labels, c.annotations, c.supplier
			if c.report != nil {
				host.Status.Agent = &infrav1.AgentReport{HandOver: c.report}
			}
			if c.claimed {
				host.Spec.Claim = &infrav1.HostClaim{}
			}
			before, given := host.DeepCopy(), maps.Clone(c.annotations)
			for range 2 { // the second time changes nothing
				Mark(host)
				if !maps.Equal(host.Labels, c.wantLabels) || !maps.Equal(host.Annotations, c.want) {
					t.Errorf("labels %v, annotations %v", host.Labels, host.Annotations)
				}
				t.Attr("rule", "CT-96")
				t.Attr("rule", "CT-106")
			}
			if !maps.Equal(before.Labels, c.labels) || !maps.Equal(given, c.annotations) {
				t.Error("the labels or annotations of a copy have changed")
			}
		})
	}
}

// TestOffers checks that a new offer blocks the move again, whatever happened before, until the agent accepts it.
func TestOffers(t *testing.T) {
	host := &infrav1.CapstanHost{}
	host.UID, host.Spec.Claim = "uid", &infrav1.HostClaim{}
	host.Annotations = map[string]string{infrav1.HandedOverAnnotation: "uid", leave: "", "a": "b"}
	host.Status.Agent = &infrav1.AgentReport{HandOver: accepted("uid/1")}
	before := host.DeepCopy()
	for _, step := range []struct {
		what string
		do   func()
		want map[string]string
	}{
		{"an offer", func() { Offer(host, "uid/2") },
			map[string]string{infrav1.OfferAnnotation: "uid/2", block: ours, "a": "b"}},
		{"Mark, before the agent accepts the offer", func() { Mark(host) },
			map[string]string{infrav1.OfferAnnotation: "uid/2", block: ours, "a": "b"}},
		{"Mark, once the agent has accepted the offer",
			func() { host.Status.Agent.HandOver.Offer = "uid/2"; Mark(host) },
			map[string]string{infrav1.OfferAnnotation: "uid/2", infrav1.HandedOverAnnotation: "uid/2", "a": "b"}},
		{"Mark, once the agent can't accept the offer any more", func() {
			host.Status.Agent.HandOver = &infrav1.HandOverReport{Offer: "uid/2", Message: "expired"}
			Mark(host)
		},
			map[string]string{infrav1.OfferAnnotation: "uid/2", block: ours, "a": "b"}},
		{"a new offer", func() { Offer(host, "uid/3") },
			map[string]string{infrav1.OfferAnnotation: "uid/3", block: ours, "a": "b"}},
		{"Mark, once the agent has accepted the new offer",
			func() { host.Status.Agent.HandOver = accepted("uid/3"); Mark(host) },
			map[string]string{infrav1.OfferAnnotation: "uid/3", infrav1.HandedOverAnnotation: "uid/3", "a": "b"}},
		{"the call-off", func() { CallOff(host) }, map[string]string{block: ours, "a": "b"}},
		{"Mark, before the agent knows of the call-off", func() { Mark(host) },
			map[string]string{block: ours, "a": "b"}},
	} {
		if step.do(); !maps.Equal(host.Annotations, step.want) {
			t.Errorf("after %s: %v, want %v", step.what, host.Annotations, step.want)
		}
		if Held(host) != (step.want[block] != "") || HandedOver(host) == Held(host) {
			t.Errorf("after %s: held %t, handed over %t", step.what, Held(host), HandedOver(host))
		}
	}
	if before.Annotations[leave] != "" || before.Annotations[infrav1.HandedOverAnnotation] != "uid" {
		t.Error("the annotations of a copy have changed")
	}
}
