//go:build linux

package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// effectLimit limits the wait for the controller's reaction to an attempt.
const effectLimit = time.Minute

// read returns an object as the plane's administrator sees it, or "" if it does not exist.
func (w *world) read(ctx context.Context, path string) (string, error) {
	status, body, err := w.send(ctx, admin, get(path))
	switch {
	case err != nil || status == http.StatusNotFound:
		return "", err
	case status != http.StatusOK:
		return "", fmt.Errorf("GET %s: %d %s", w.fill(path), status, message(body))
	}
	return body, nil
}

// await reads an object until ok accepts it.
func (w *world) await(ctx context.Context, path, what string, ok func(body string) bool) error {
	ctx, cancel := context.WithTimeout(ctx, effectLimit)
	defer cancel()
	last := ""
	for {
		body, err := w.read(ctx, path)
		if err == nil && ok(body) {
			return nil
		}
		if err == nil {
			last = body
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %s was not seen within %s; the object ends with %s",
				w.fill(path), what, effectLimit, strings.Join(strings.Fields(last[max(0, len(last)-1500):]), " "))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// gone reports whether an object does not exist.
func gone(body string) bool { return body == "" }

// says returns a function that reports whether an object contains a word.
func says(word string) func(string) bool {
	return func(body string) bool { return strings.Contains(body, word) }
}

// uidOf returns the uid and the version of an object.
func uidOf(body string) string {
	var o struct {
		Metadata struct{ UID, ResourceVersion string }
	}
	if json.Unmarshal([]byte(body), &o) != nil {
		return ""
	}
	return o.Metadata.UID + "/" + o.Metadata.ResourceVersion
}

// enrollerNames returns attempts of somebody who may register hosts. The attempts target other people's
// objects that have the names of a host's objects.
func enrollerNames() []attempt {
	const boundary = "the controller uses only objects that it made itself for a host"
	takeover := func(mechanism, host, path, victim string) attempt {
		name := path[strings.LastIndexByte(path, '/')+1:]
		return attempt{
			boundary: boundary, who: enroller, mechanism: mechanism,
			try: func(ctx context.Context, w *world) error {
				at := strings.TrimSuffix(path, "/"+name)
				if err := w.ask(ctx, admin, post(at, strings.ReplaceAll(victim, "NAME", name))); err != nil {
					return err
				}
				before, err := w.read(ctx, path)
				if err != nil {
					return err
				}
				if err := w.enroll(ctx, host, "NameTaken"); err != nil {
					return err
				}
				after, err := w.read(ctx, path)
				switch {
				case err != nil:
					return err
				case uidOf(after) != uidOf(before):
					return nil
				}
				return errors.Join(refused("the object is unchanged"), w.ask(ctx, admin, del(path)))
			},
			control: func(ctx context.Context, w *world) error { return w.enroll(ctx, host+"-fresh", "HostStarting") },
		}
	}
	return []attempt{
		takeover("have a Secret deleted that has the name of a host's bootstrap data", "takes-a",
			core+"secrets/takes-a-bootstrap", `{"metadata":{"name":"NAME"},"stringData":{"value":"precious"}}`),
		takeover("have a Secret deleted that has the name of an offer", "takes-b", core+"secrets/takes-b-handover",
			`{"metadata":{"name":"NAME"},"stringData":{"value":"precious"}}`),
		takeover("have a Role replaced", "takes-c", rbac+"namespaces/{ns}/roles/host-takes-c",
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"NAME"},"rules":[]}`),
		takeover("have an account deleted", "takes-d", core+"serviceaccounts/host-takes-d", `{"metadata":{"name":"NAME"}}`),
		takeover("have a Lease taken", "takes-e", leases+"/takes-e", `{"metadata":{"name":"NAME"}}`),
	}
}

// enroll registers a host, waits until its conditions have the reason, and deletes it again.
func (w *world) enroll(ctx context.Context, name, reason string) error {
	path := capstan + "capstanhosts/" + name
	err := w.ask(ctx, enroller, post(capstan+"capstanhosts", `{"apiVersion":"infrastructure.capstan.dev/v1beta2",`+
		`"kind":"CapstanHost","metadata":{"name":"`+name+`"},"spec":{"zone":"zone-a"}}`))
	if err != nil {
		return err
	}
	err = w.await(ctx, path, "reason "+reason, says(`"`+reason+`"`))
	return errors.Join(err, w.ask(ctx, enroller, del(path)), w.await(ctx, path, "its deletion", gone))
}

// tenantData returns attempts of a tenant to make the plane deliver a Secret to a host, although the Secret is not
// bootstrap data of the host's machine.
func tenantData() []attempt {
	const boundary = "bootstrap data comes from the machine's configuration"
	deputy := func(mechanism, name, bootstrap string) attempt {
		return attempt{
			boundary: boundary, who: tenant, mechanism: mechanism,
			try: func(ctx context.Context, w *world) error {
				if err := w.machine(ctx, name, bootstrap); err != nil {
					return err
				}
				path := capstan + "capstanmachines/" + name
				err := w.await(ctx, path, "an answer", func(body string) bool {
					return strings.Contains(body, `"BootstrapDataRefused"`) || strings.Contains(body, `"providerID"`)
				})
				if err != nil {
					return err
				}
				body, err := w.read(ctx, path)
				if err != nil {
					return err
				}
				err = errors.Join(w.ask(ctx, tenant, del(clusters+"machines/"+name)),
					w.await(ctx, path, "its deletion", gone))
				if err != nil || strings.Contains(body, `"providerID"`) {
					return err
				}
				return refused("the machine gets no host: BootstrapDataRefused")
			},
			control: func(ctx context.Context, w *world) error {
				w.labelled.Do(func() { w.labelledErr = w.deliverLabelled(ctx) })
				return w.labelledErr
			},
		}
	}
	config := func(name string) string {
		return `"configRef":{"apiGroup":"bootstrap.cluster.x-k8s.io","kind":"KubeadmConfig","name":"` + name + `"},`
	}
	return []attempt{
		deputy("the administrator's kubeconfig as bootstrap data", "deputy-a",
			`"dataSecretName":"{cluster}-kubeconfig"`),
		deputy("the cluster's certificate authority as bootstrap data", "deputy-b", `"dataSecretName":"{cluster}-ca"`),
		deputy("somebody else's Secret as bootstrap data", "deputy-c", `"dataSecretName":"precious"`),
		deputy("another machine's bootstrap data, named by the Secret", "deputy-d", `"dataSecretName":"{data}"`),
		deputy("another machine's bootstrap data, named by Secret and configuration", "deputy-e",
			config("{data}")+`"dataSecretName":"{data}"`),
	}
}

// machine creates a Machine with a CapstanMachine, as the tenant.
func (w *world) machine(ctx context.Context, name, bootstrap string) error {
	if err := w.ask(ctx, tenant, post(capstan+"capstanmachines", machineNamed(name, ""))); err != nil {
		return err
	}
	return w.ask(ctx, tenant, post(clusters+"machines",
		`{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Machine","metadata":`+
			`{"name":"`+name+`","labels":{"cluster.x-k8s.io/cluster-name":"{cluster}"}},"spec":{"clusterName":"{cluster}",`+
			`"bootstrap":{`+bootstrap+`},"infrastructureRef":`+
			`{"apiGroup":"infrastructure.capstan.dev","kind":"CapstanMachine","name":"`+
			name+`"}}}`))
}

// deliverLabelled shows that a machine gets a host if the tenant has labelled the Secret with its bootstrap data.
func (w *world) deliverLabelled(ctx context.Context) error {
	err := w.ask(ctx, tenant, post(core+"secrets", `{"metadata":{"name":"own-data","labels":`+
		`{"infrastructure.capstan.dev/bootstrap-data":""}},"stringData":{"value":"#cloud-config\nruncmd: [\"true\"]\n"}}`))
	if err != nil {
		return err
	}
	if err := w.machine(ctx, "labelled", `"dataSecretName":"own-data"`); err != nil {
		return err
	}
	path := capstan + "capstanmachines/labelled"
	if err := w.await(ctx, path, "a host", says(`"reason":"HostClaimed","status":"True"`)); err != nil {
		return err
	}
	return errors.Join(w.ask(ctx, tenant, del(clusters+"machines/labelled")), w.await(ctx, path, "its deletion", gone))
}
