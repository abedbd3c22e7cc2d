package v1beta1

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/randfill"

	"github.com/capstan-dev/capstan/api/v1beta2"
)

// rounds is how many objects of each kind the ordinary tests convert. "go test -fuzz" converts more.
const rounds = 1000

// FuzzMachine and the others below check the laws of conversion for one kind: run for example
//
//	go test ./v1beta1 -run NONE -fuzz FuzzMachine$ -fuzztime 10m
func FuzzMachine(f *testing.F) {
	laws(f, pair[*CapstanMachine, *v1beta2.CapstanMachine]{
		spoke: func() *CapstanMachine { return &CapstanMachine{} },
		hub:   func() *v1beta2.CapstanMachine { return &v1beta2.CapstanMachine{} },
		toHub: ConvertMachineToHub, fromHub: ConvertMachineFromHub,
		rewrite: func(m, by *CapstanMachine) { m.Spec, m.Status = by.Spec, by.Status },
	})
}

func FuzzMachineTemplate(f *testing.F) {
	laws(f, pair[*CapstanMachineTemplate, *v1beta2.CapstanMachineTemplate]{
		spoke: func() *CapstanMachineTemplate { return &CapstanMachineTemplate{} },
		hub:   func() *v1beta2.CapstanMachineTemplate { return &v1beta2.CapstanMachineTemplate{} },
		toHub: ConvertMachineTemplateToHub, fromHub: ConvertMachineTemplateFromHub,
		rewrite: func(m, by *CapstanMachineTemplate) { m.Spec = by.Spec },
	})
}

func FuzzCluster(f *testing.F) {
	laws(f, pair[*CapstanCluster, *v1beta2.CapstanCluster]{
		spoke: func() *CapstanCluster { return &CapstanCluster{} },
		hub:   func() *v1beta2.CapstanCluster { return &v1beta2.CapstanCluster{} },
		toHub: ConvertClusterToHub, fromHub: ConvertClusterFromHub,
		rewrite: func(c, by *CapstanCluster) { c.Spec, c.Status = by.Spec, by.Status },
	})
}

func FuzzClusterTemplate(f *testing.F) {
	laws(f, pair[*CapstanClusterTemplate, *v1beta2.CapstanClusterTemplate]{
		spoke: func() *CapstanClusterTemplate { return &CapstanClusterTemplate{} },
		hub:   func() *v1beta2.CapstanClusterTemplate { return &v1beta2.CapstanClusterTemplate{} },
		toHub: ConvertClusterTemplateToHub, fromHub: ConvertClusterTemplateFromHub,
		rewrite: func(c, by *CapstanClusterTemplate) { c.Spec = by.Spec },
	})
}

// object is an API object, which has metadata.
type object interface {
	comparable
	metav1.Object
}

// pair describes a kind in both versions.
type pair[S, H object] struct {
	spoke   func() S
	hub     func() H
	toHub   func(context.Context, S, H) error
	fromHub func(context.Context, H, S) error
	// rewrite replaces the content of an object with that of another and leaves the metadata.
	rewrite func(object, by S)
}

// laws checks that conversion loses nothing from v1beta1 to v1beta2 and back, from v1beta2 to v1beta1 and back, and
// when a client that read v1beta1 writes something else.
func laws[S, H object](f *testing.F, p pair[S, H]) {
	for n := range rounds {
		seed := binary.LittleEndian.AppendUint64(nil, uint64(n))
		f.Add(append(seed, []byte(fmt.Sprintf("%d of %d", n, rounds))...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fill := valid(data)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		same := func(law string, want, got any) {
			t.Helper()
			if !equality.Semantic.DeepEqual(want, got) {
				t.Fatalf("%s:\n%s", law, diff.Diff(want, got))
			}
		}

		spoke, over, back := p.spoke(), p.hub(), p.spoke()
		fill.Fill(spoke)
		must(p.toHub(t.Context(), spoke, over))
		must(p.fromHub(t.Context(), over, back))
		// Conversion adds the annotation to the v1beta1 object; a client that writes v1beta1 need not have seen it.
		forget(back)
		same("v1beta1 to v1beta2 and back", spoke, back)

		hub, down, up := p.hub(), p.spoke(), p.hub()
		fill.Fill(hub)
		before := deepCopy(hub)
		must(p.fromHub(t.Context(), hub, down))
		same("the object that is converted must stay as it is", before, any(hub))
		must(p.toHub(t.Context(), down, up))
		same("v1beta2 to v1beta1 and back", hub, up)
		if _, left := up.GetAnnotations()[DataAnnotation]; left {
			t.Fatal("the annotation is stored")
		}

		other, again, read := p.spoke(), p.hub(), p.spoke()
		fill.Fill(other)
		p.rewrite(down, other)
		must(p.toHub(t.Context(), down, again))
		must(p.fromHub(t.Context(), again, read))
		forget(read)
		forget(down)
		same("what was written as v1beta1 is what is read", down, read)
	})
}

func deepCopy(o any) any {
	switch o := o.(type) {
	case *v1beta2.CapstanCluster:
		return o.DeepCopy()
	case *v1beta2.CapstanClusterTemplate:
		return o.DeepCopy()
	case *v1beta2.CapstanMachine:
		return o.DeepCopy()
	case *v1beta2.CapstanMachineTemplate:
		return o.DeepCopy()
	}
	panic(reflect.TypeOf(o))
}

// forget removes the annotation.
func forget(o metav1.Object) {
	annotations := o.GetAnnotations()
	delete(annotations, DataAnnotation)
	o.SetAnnotations(annotations)
}

// valid fills objects as the schemas allow them, from the bytes of the fuzzer.
func valid(data []byte) *randfill.Filler {
	return randfill.NewFromGoFuzz(data).NilChance(.4).NumElements(0, 3).Funcs(
		func(m *metav1.ObjectMeta, c randfill.Continue) {
			*m = metav1.ObjectMeta{Name: "a" + word(c), Namespace: "b" + word(c), Generation: c.Int63()}
			c.Fill(&m.Labels)
			c.Fill(&m.Annotations)
		},
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(s *string, c randfill.Continue) { *s = word(c) },
		func(t *metav1.Time, c randfill.Continue) { *t = metav1.Unix(int64(c.Uint32()), 0) },
		func(p **string, c randfill.Continue) {
			if *p = nil; c.Bool() {
				text := "x" + word(c)
				*p = &text
			}
		},
		func(list *[]clusterv1beta1.Condition, c randfill.Continue) {
			*list = nil
			for _, m := range conditions(c) {
				old := oldCondition(m)
				switch c.Intn(4) { // some values can't be derived from v1beta2
				case 0:
					old.Severity = clusterv1beta1.ConditionSeverity(pick(c, "Error", "Warning", "Info", ""))
				case 1:
					old.Reason = ""
				}
				*list = append(*list, old)
			}
		},
		func(s *v1beta2.CapstanMachineStatus, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Conditions = conditions(c)
			s.Deprecated.V1Beta1 = written(c, s.Conditions)
		},
		func(s *v1beta2.CapstanClusterStatus, c randfill.Continue) {
			c.FillNoCustom(s)
			s.Conditions = conditions(c)
			s.Deprecated.V1Beta1 = written(c, s.Conditions)
			for i := range s.FailureDomains {
				s.FailureDomains[i].Name = fmt.Sprintf("%s-%d", word(c), i) // names are unique, and in any order
			}
		},
	)
}

// conditions returns conditions that v1beta2 allows, many with Capstan's types and reasons.
func conditions(c randfill.Continue) (list []metav1.Condition) {
	for _, kind := range []string{"Ready", "Bootstrapped", "HostOnline", "a.example.com/" + word(c)} {
		if c.Bool() {
			continue
		}
		condition := metav1.Condition{
			Type: kind, Status: metav1.ConditionStatus(pick(c, "True", "False", "Unknown")),
			Reason: pick(c, "Ready", v1beta2.BootstrapFailedReason, v1beta2.HostOfflineReason, v1beta2.NoReasonReportedReason,
				"R"+word(c)),
			Message: word(c), ObservedGeneration: int64(c.Intn(3)),
		}
		c.Fill(&condition.LastTransitionTime)
		list = append(list, condition)
	}
	return list
}

// written returns what v1beta2 keeps of v1beta1. Some of it still fits the current conditions; some is out of date.
func written(c randfill.Continue, current []metav1.Condition) (w v1beta2.V1Beta1Status) {
	for _, m := range current {
		old := keptCondition(oldCondition(m))
		switch c.Intn(4) {
		case 0:
			old.Severity = pick(c, "Error", "Warning", "Info", "")
		case 1:
			old.Message = word(c)
		default:
			continue
		}
		w.Conditions = append(w.Conditions, old)
	}
	for _, p := range []**string{&w.FailureReason, &w.FailureMessage} {
		if c.Bool() {
			text := pick(c, "", "x", v1beta2.BootstrapFailedReason)
			*p = &text
		}
	}
	return w
}

func pick(c randfill.Continue, from ...string) string { return from[c.Intn(len(from))] }

// word returns some letters, or none.
func word(c randfill.Continue) string {
	return strings.Repeat(string(rune('a'+c.Intn(26))), c.Intn(4))
}

// TestRecallSurvivesNonsense: an invalid annotation must not make an object, or a list that contains it, unreadable.
func TestRecallSurvivesNonsense(t *testing.T) {
	for name, value := range map[string]string{
		"no JSON":         "{",
		"empty":           "",
		"of another kind": `[1, 2]`,
		"wrong types":     `{"status": {"conditions": "none"}}`,
		"another object":  `{"status": {"initialization": {"provisioned": true}, "host": "elsewhere"}, "spec": {"providerID": "capstan://other"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			m, hub := &CapstanMachine{}, &v1beta2.CapstanMachine{}
			m.Annotations = map[string]string{DataAnnotation: value, "mine": "stays"}
			m.Status.Host = "host-1"
			if err := ConvertMachineToHub(t.Context(), m, hub); err != nil {
				t.Fatal(err)
			}
			if hub.Status.Host != "host-1" || hub.Spec.ProviderID != "" || len(hub.Annotations) != 1 {
				t.Errorf("got %+v", hub)
			}
			if p := hub.Status.Initialization.Provisioned; p != nil && *p {
				t.Error("the annotation overrides the fields, so anybody could mark a machine as provisioned")
			}
		})
	}
}

// TestContractV1Beta1 checks what Cluster API reads of our objects by contract v1beta1.
func TestContractV1Beta1(t *testing.T) {
	yes := true
	now := metav1.Unix(1_700_000_000, 0)
	failed := metav1.Condition{
		Type: v1beta2.BootstrappedCondition, Status: metav1.ConditionFalse, Reason: v1beta2.BootstrapFailedReason,
		Message:            "runcmd 1/2 failed",
		LastTransitionTime: now,
	}
	hub := &v1beta2.CapstanMachine{
		Spec: v1beta2.CapstanMachineSpec{ProviderID: "capstan://default/host-1/12345678"},
		Status: v1beta2.CapstanMachineStatus{
			Initialization: v1beta2.CapstanMachineInitialization{Provisioned: &yes},
			Addresses:      clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.231.1.1"}},
			FailureDomain:  "zone-a",
			Conditions:     []metav1.Condition{failed},
		},
	}
	m := &CapstanMachine{}
	if err := ConvertMachineFromHub(t.Context(), hub, m); err != nil {
		t.Fatal(err)
	}
	if deref(m.Spec.ProviderID) != hub.Spec.ProviderID || deref(m.Spec.FailureDomain) != "zone-a" || !m.Status.Ready {
		t.Errorf("IM-10, IM-55, IM-19: got %+v", m)
	}
	if len(m.Status.Addresses) != 1 || m.Status.Addresses[0].Address != "10.231.1.1" {
		t.Errorf("IM-27: got %+v", m.Status.Addresses)
	}
	if deref(m.Status.FailureReason) != v1beta2.BootstrapFailedReason || deref(m.Status.FailureMessage) != failed.Message {
		t.Errorf("IM-50: got %v, %v", m.Status.FailureReason, m.Status.FailureMessage)
	}
	want := clusterv1beta1.Condition{
		Type: "Bootstrapped", Status: corev1.ConditionFalse, Severity: clusterv1beta1.ConditionSeverityError,
		Reason: failed.Reason, Message: failed.Message, LastTransitionTime: now,
	}
	if len(m.Status.Conditions) != 1 || !reflect.DeepEqual(m.Status.Conditions[0], want) {
		t.Errorf("IM-29: got %+v", m.Status.Conditions)
	}

	// The controller sees what a client wrote through v1beta1 (IM-42), and it stays when the conditions change (IM-25).
	reason := "UpdateError"
	m.Status.FailureReason = &reason
	m.Status.Conditions = nil
	if err := ConvertMachineToHub(t.Context(), m, hub); err != nil {
		t.Fatal(err)
	}
	if got, message := hub.Status.Failure(); got != "UpdateError" || message != failed.Message {
		t.Errorf("IM-42: got %q, %q", got, message)
	}
}

func TestSeverityIsForFalseOnly(t *testing.T) {
	for reason, want := range map[string]clusterv1beta1.ConditionSeverity{
		v1beta2.BootstrapFailedReason: "Error", v1beta2.HostOfflineReason: "Warning", v1beta2.WaitingForOwnerReason: "Info",
	} {
		for _, status := range []metav1.ConditionStatus{"True", "Unknown"} {
			if got := severity(metav1.Condition{Status: status, Reason: reason}); got != "" {
				t.Errorf("%s %s has severity %s", status, reason, got)
			}
		}
		if got := severity(metav1.Condition{Status: "False", Reason: reason}); got != want {
			t.Errorf("%s has severity %s, want %s", reason, got, want)
		}
	}
}
