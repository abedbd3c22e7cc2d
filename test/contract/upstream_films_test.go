//go:build linux

package contract

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capstan-dev/capstan/api/v1beta2"
)

// filmMachines records the revisions of all Machines, by name.
func filmMachines(w *world) func() map[string][]*clusterv1.Machine {
	w.Helper()
	watch, err := shared.admin.Watch(w.Context(), &clusterv1.MachineList{}, client.InNamespace(w.ns))
	w.must(err)
	seen := make(chan map[string][]*clusterv1.Machine, 1)
	go func() {
		all := map[string][]*clusterv1.Machine{}
		for e := range watch.ResultChan() {
			if m, ok := e.Object.(*clusterv1.Machine); ok {
				all[m.Name] = append(all[m.Name], m)
			}
		}
		seen <- all
	}()
	return func() map[string][]*clusterv1.Machine {
		watch.Stop()
		return <-seen
	}
}

// checkMachineFilms checks all revisions of all Machines: the first provisioned revision also has provider id,
// addresses and domain, and no later one loses them. The Machine named worker must be among them.
func checkMachineFilms(w *world, films map[string][]*clusterv1.Machine, worker string) {
	w.Helper()
	provisioned := map[string]bool{}
	for name, film := range films {
		for _, m := range film {
			if !ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false) {
				if provisioned[name] {
					w.Errorf("Machine %s was provisioned, and later not (IM-21)", name)
				}
				continue
			}
			provisioned[name] = true
			domain := m.Status.FailureDomain
			if w.Version == v1beta1 {
				domain = m.Spec.FailureDomain
			}
			if m.Spec.ProviderID == "" || len(m.Status.Addresses) == 0 || domain == "" {
				w.Errorf("a revision of Machine %s is provisioned with provider id %q, addresses %v, domain %q (IM-21)",
					name, m.Spec.ProviderID, m.Status.Addresses, domain)
			}
		}
	}
	if !provisioned[worker] || len(provisioned) < 4 {
		w.Errorf("provisioned Machines %v: the test looks in the wrong place", provisioned)
	}
	w.Attr("rule", "IM-21 "+string(w.Version))
}

// keepsItsFlag removes the flag from the CapstanMachine of a Machine, while the provider is paused. Core sees that, but
// the Machine stays provisioned.
func keepsItsFlag(w *world, name string) {
	w.Helper()
	edit(w, w.machine(name), func(u *unstructured.Unstructured) {
		u.SetAnnotations(map[string]string{clusterv1.PausedAnnotation: ""})
	})
	w.waitCondition("CapstanMachine", name, clusterv1.PausedCondition, "True")
	const words = "the flag was taken back"
	u := w.machine(name)
	if w.Version == v1beta1 {
		w.must(unstructured.SetNestedField(u.Object, false, "status", "ready"))
	} else {
		w.must(unstructured.SetNestedField(u.Object, false, "status", "initialization", "provisioned"))
	}
	list, _, err := unstructured.NestedSlice(u.Object, "status", "conditions")
	w.must(err)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == infrav1.ReadyCondition {
			c["status"], c["reason"], c["message"] = "False", "TakenBack", words
			if w.Version == v1beta1 {
				c["severity"] = "Error"
			}
		}
	}
	w.must(unstructured.SetNestedSlice(u.Object, list, "status", "conditions"))
	w.must(shared.admin.Status().Update(w.Context(), u))
	if w.flag(w.machine(name)) {
		w.Fatal("the CapstanMachine is still provisioned after the flag was removed")
	}
	m := &clusterv1.Machine{}
	w.until("the Machine shows the changed condition", func() bool {
		w.touchMachine(name)
		c := conditions.Get(read(w, name, m), clusterv1.MachineInfrastructureReadyCondition)
		return c != nil && strings.Contains(c.Message, words)
	})
	if !ptr.Deref(m.Status.Initialization.InfrastructureProvisioned, false) {
		w.Error("the Machine is not provisioned any more (IM-21)")
	}
	edit(w, w.machine(name), func(u *unstructured.Unstructured) { u.SetAnnotations(nil) })
	w.ready(name)
}

// touchMachine changes a Machine, at most once a second. Core ignores changes of a paused infrastructure object, but
// reads the object when the Machine changes, and may then see an older copy.
func (w *world) touchMachine(name string) {
	w.Helper()
	edit(w, read(w, name, &clusterv1.Machine{}), func(m *clusterv1.Machine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, "example.com/touched", time.Now().Format(time.TimeOnly))
	})
}

// coreReadsByTheLabel checks in the audit log that core requests our objects in the last API version that the label
// names.
func coreReadsByTheLabel(w *world) error {
	w.Helper()
	reads := 0
	err := auditLog(func(r request) {
		o := r.ObjectRef
		if r.User.Username != coreUser || o == nil || o.Namespace != w.ns || o.APIGroup != infrav1.GroupVersion.Group {
			return
		}
		reads++
		if !strings.HasPrefix(r.RequestURI, "/apis/"+o.APIGroup+"/"+string(w.Version)+"/") {
			w.Errorf("core requested %s %s, which is another API version (IC-10)", r.Verb, r.RequestURI)
		}
	})
	if reads < 10 {
		w.Errorf("core requested our objects %d times: the test looks in the wrong place", reads)
	}
	return err
}
