//go:build linux

package attack

import "net/http"

// Paths of the API.
const (
	core     = "/api/v1/namespaces/{ns}/"
	capstan  = "/apis/infrastructure.capstan.dev/v1beta2/namespaces/{ns}/"
	clusters = "/apis/cluster.x-k8s.io/v1beta2/namespaces/{ns}/"
	rbac     = "/apis/rbac.authorization.k8s.io/v1/"
	leases   = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
)

// admission is the API path of admission webhooks and admission policies.
const admission = "/apis/admissionregistration.k8s.io/v1/"

// relabel is a patch that adds a label, which is harmless.
const relabel = `{"metadata":{"labels":{"a":"b"}}}`

// extensionConfig registers an extension.
const extensionConfig = `{"apiVersion":"runtime.cluster.x-k8s.io/v1beta2","kind":"ExtensionConfig","metadata":` +
	`{"name":"attack"},"spec":{"clientConfig":{"url":"https://127.0.0.1:1","caBundle":"{authority}"}}}`

// applyPatch is the content type of a server-side apply.
const applyPatch = "application/apply-patch+yaml"

// hostSecrets returns attempts of a host's account on Secrets: it may get its own two by name, and nothing else.
func hostSecrets() []attempt {
	const boundary = "a host reads its own data only"
	who := hostAccount
	return []attempt{
		call(boundary, who, "get another host's bootstrap data", manager, get(core+"secrets/{free}-bootstrap")),
		call(boundary, who, "get another host's offer of a move", manager, get(core+"secrets/{free}-handover")),
		call(boundary, who, "get the cluster's kubeconfig", manager, get(core+"secrets/{cluster}-kubeconfig")),
		call(boundary, who, "get the cluster's certificate authority", manager, get(core+"secrets/{cluster}-ca")),
		call(boundary, who, "get bootstrap data from the bootstrap provider's Secret", manager,
			get(core+"secrets/{data}")),
		call(boundary, who, "list Secrets", manager, get(core+"secrets")),
		call(boundary, who, "list Secrets with the name of its own Secret as selector", manager,
			get(core+"secrets?fieldSelector=metadata.name={host}-bootstrap")),
		call(boundary, who, "watch Secrets", manager, get(core+"secrets?watch=true&timeoutSeconds=1")),
		call(boundary, who, "list Secrets of all namespaces", admin, get("/api/v1/secrets")),
		call(boundary, who, "list ConfigMaps", manager, get(core+"configmaps")),
		call(boundary, who, "make a Secret", manager, post(core+"secrets", `{"metadata":{"name":"{host}-x"}}`)),
		call(boundary, who, "write data for another host", manager,
			patch(core+"secrets/{free}-bootstrap", `{"data":{"value":"eA=="}}`)),
		call(boundary, who, "delete another host's bootstrap data", manager, del(core+"secrets/{free}-bootstrap")),
		call(boundary, who, "delete all Secrets", admin, del(core+"secrets?labelSelector=none")),
	}
}

// hostState returns attempts of a host's account on CapstanHosts: it may read its own, and write status.agent.
func hostState() []attempt {
	const boundary = "a host can change only the part of its own status that its agent reports"
	const others = "a host has no say about others"
	who := hostAccount
	own := capstan + "capstanhosts/{host}"
	status := func(body string) request {
		r := patch(own+"/status?fieldManager=capstan-agent&force=true", `apiVersion: infrastructure.capstan.dev/v1beta2
kind: CapstanHost
metadata: {name: "{host}", namespace: "{ns}"}
status: `+body)
		r.kind = applyPatch
		return r
	}
	good := status(`{agent: {version: v0, bootID: x}}`)
	return []attempt{
		call(others, who, "get another host", otherHost, get(capstan+"capstanhosts/{other}")),
		call(others, who, "list hosts", admin, get(capstan+"capstanhosts")),
		call(others, who, "watch hosts", admin, get(capstan+"capstanhosts?watch=true&timeoutSeconds=1")),
		call(others, who, "report for another host", otherHost,
			patch(capstan+"capstanhosts/{other}/status?fieldManager=capstan-agent", `{"status":{"agent":{"version":"v0"}}}`)),
		call(others, who, "register a host", admin,
			post(capstan+"capstanhosts", `{"apiVersion":"infrastructure.capstan.dev/v1beta2","kind":"CapstanHost",`+
				`"metadata":{"name":"mine"},"spec":{"zone":"a"}}`)),
		call(others, who, "delete another host", admin, del(capstan+"capstanhosts/{free}")),
		call(boundary, who, "delete its own host", admin, del(own)),
		call(boundary, who, "release its claim", admin, patch(own, `{"spec":{"claim":{"released":true}}}`)),
		call(boundary, who, "set an annotation of its own host", admin,
			patch(own, `{"metadata":{"annotations":{"infrastructure.capstan.dev/handed-over":"x"}}}`)),
		callOr(boundary, who, "claim to be Ready", status(`{conditions: [{type: Ready, status: "True", reason: Ready,
    message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`), who, good),
		callOr(boundary, who, "fill the list of conditions", status(`{agent: {version: v0}, conditions: `+many(30)+`}`),
			who, good),
		callOr(boundary, who, "choose its phase", status(`{agent: {version: v0}, phase: Quarantined}`), who, good),
		callOr(boundary, who, "write the list of Kubernetes versions",
			status(`{agent: {version: v0}, kubernetesVersions: [v9.9.9]}`), who, good),
		callOr(boundary, who, "remove the conditions that the controller wrote", request{
			verb: http.MethodPatch, path: own + "/status?fieldManager=capstan-agent", kind: "application/json-patch+json",
			body: `[{"op":"remove","path":"/status/conditions"}]`,
		}, who, good),
		callOr(boundary, who, "write as another field manager",
			patch(own+"/status?fieldManager=another", `{"status":{"agent":{"version":"v0"}}}`), who, good),
		callOr(boundary, who, "a report of 100 KB", status(`{agent: {version: v0, cleaning: {providerID: x, leftovers: [`+
			list(220, 490)+`]}}}`), who, good),
		callOr(boundary, who, "a string of 1 MB", status(`{agent: {version: "`+long(1000000)+`"}}`), who, good),
	}
}

// hostTokens returns attempts of a host's account to get tokens: it may get only short-lived ones of its own account,
// for this claim.
func hostTokens() []attempt {
	const boundary = "a host's token ends with its claim"
	who := hostAccount
	own := core + "serviceaccounts/host-{host}/token"
	bound := func(spec string) request {
		return post(own, `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{`+spec+
			`"boundObjectRef":{"apiVersion":"v1","kind":"Secret","name":"{host}-epoch-{epoch}"}}}`)
	}
	unbound := func(account string) request {
		return post(core+"serviceaccounts/"+account+"/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":600}}`)
	}
	good := bound(`"expirationSeconds":3600,`)
	return []attempt{
		callOr(boundary, who, "a token for 136 years", bound(`"expirationSeconds":4294967296,`), who, good),
		callOr(boundary, who, "a token for another audience", bound(`"audiences":["vault"],`), who, good),
		callOr(boundary, who, "a token that is bound to nothing", unbound("host-{host}"), who, good),
		callOr(boundary, who, "a token bound to a Secret that stays", post(own,
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"boundObjectRef":`+
				`{"apiVersion":"v1","kind":"Secret","name":"{cluster}-ca"}}}`), who, good),
		callOr(boundary, who, "a token of another host", post(core+"serviceaccounts/host-{other}/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"boundObjectRef":`+
				`{"apiVersion":"v1","kind":"Secret","name":"{other}-epoch-{otherepoch}"}}}`), who, good),
		call(boundary, who, "a token of the namespace's default account", admin, unbound("default")),
		callOr(boundary, admin, "an unbound token, requested by the administrator",
			unbound("host-{host}"), who, good),
		call(boundary, who, "have the API server review a stolen token", admin,
			post("/apis/authentication.k8s.io/v1/tokenreviews",
				`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"x"}}`)),
		call(boundary, who, "a client certificate", admin,
			get("/apis/certificates.k8s.io/v1/certificatesigningrequests")),
	}
}

// hostRights returns attempts of a host's account to get more rights.
func hostRights() []attempt {
	const boundary = "a host can't widen its rights"
	who := hostAccount
	binding := `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"%KIND%","metadata":{"name":"more"},"roleRef":` +
		`{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},"subjects":` +
		`[{"kind":"ServiceAccount","name":"host-{host}","namespace":"{ns}"}]}`
	as := func(header string) request {
		r := get(core + "secrets/{cluster}-ca")
		r.header = header
		return r
	}
	return []attempt{
		call(boundary, who, "change its own Role", admin, patch(rbac+"namespaces/{ns}/roles/host-{host}", `{"rules":[]}`)),
		call(boundary, who, "bind itself in the namespace", admin,
			post(rbac+"namespaces/{ns}/rolebindings", kind(binding, "RoleBinding"))),
		call(boundary, who, "bind itself everywhere", admin, post(rbac+"clusterrolebindings", kind(binding,
			"ClusterRoleBinding"))),
		call(boundary, who, "change its account", admin,
			patch(core+"serviceaccounts/host-{host}", `{"metadata":{"labels":{"a":"b"}}}`)),
		call(boundary, who, "act as the manager", admin, as("Impersonate-User: capstan:manager")),
		call(boundary, who, "act as a member of group system:masters", admin,
			as("Impersonate-User: x\nImpersonate-Group: system:masters")),
		call(boundary, who, "act as another host", admin,
			headed(get(capstan+"capstanhosts/{other}"), "Impersonate-User: system:serviceaccount:{ns}:host-{other}")),
		call(boundary, who, "act as the manager with the header of a front proxy", admin,
			headed(get(core+"secrets/{cluster}-ca"),
				"X-Remote-User: capstan:manager")),
		call(boundary, who, "make an account", admin, post(core+"serviceaccounts", `{"metadata":{"name":"more"}}`)),
		call(boundary, who, "list ClusterRoleBindings", admin, get(rbac+"clusterrolebindings")),
		call(boundary, who, "ask what others may do", admin, post("/apis/authorization.k8s.io/v1/subjectaccessreviews",
			`{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"capstan:manager",`+
				`"resourceAttributes":{"verb":"get","resource":"secrets","namespace":"{ns}"}}}`)),
	}
}

// hostLeases returns attempts on Leases: a host may renew only its own.
func hostLeases() []attempt {
	const boundary = "a host can use its Lease only for heartbeats"
	who := hostAccount
	beat := patch(leases+"/{host}", `{"spec":{"leaseDurationSeconds":40}}`)
	change := func(metadata string) request { return patch(leases+"/{host}", `{"metadata":{`+metadata+`}}`) }
	return []attempt{
		call(boundary, who, "keep another host alive", otherHost, patch(leases+"/{other}",
			`{"spec":{"leaseDurationSeconds":40}}`)),
		callOr(boundary, who, "have its Lease garbage-collected by means of a false owner",
			change(`"ownerReferences":[{"apiVersion":"v1",`+
				`"kind":"ConfigMap","name":"none","uid":"00000000-0000-0000-0000-000000000000"}]`), who, beat),
		callOr(boundary, who, "block the deletion of its Lease with a finalizer",
			change(`"finalizers":["a.example.com/hold"]`), who, beat),
		callOr(boundary, who, "relabel its Lease", change(`"labels":{"infrastructure.capstan.dev/host":"{other}"}`), who,
			beat),
		callOr(boundary, who, "store data in annotations", change(`"annotations":{"a":"b"}`), who, beat),
		callOr(boundary, who, "store data in the holder's name",
			patch(leases+"/{host}", `{"spec":{"holderIdentity":"`+long(100000)+`"}}`), who, beat),
		call(boundary, who, "delete its Lease", admin, del(leases+"/{host}")),
		call(boundary, who, "make a Lease", admin, post(leases, `{"metadata":{"name":"more"}}`)),
		call(boundary, who, "take the lock of a controller", admin,
			get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases")),
	}
}

// hostPlane returns attempts of a host's account on parts of the plane.
func hostPlane() []attempt {
	const boundary = "a host has no part in the plane"
	who := hostAccount
	return []attempt{
		call(boundary, who, "list clusters", manager, get(clusters+"clusters")),
		call(boundary, who, "read its own machine", manager, get(capstan+"capstanmachines/{machine}")),
		call(boundary, who, "delete its machine", admin, del(clusters+"machines/{coremachine}")),
		call(boundary, who, "change its cluster", manager,
			patch(capstan+"capstanclusters/{capstancluster}", relabel)),
		call(boundary, who, "read the configuration that bootstrap data is made from", manager,
			get("/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/{ns}/kubeadmconfigs")),
		call(boundary, who, "register an extension", admin, post("/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs",
			extensionConfig)),
		call(boundary, who, "switch off an admission policy", admin,
			del(admission+"validatingadmissionpolicybindings/{policy}")),
		call(boundary, who, "answer in place of a webhook", admin,
			patch(admission+"validatingwebhookconfigurations/{webhook}", relabel)),
		call(boundary, who, "change a definition", admin, patch("/apis/apiextensions.k8s.io/v1/"+
			"customresourcedefinitions/capstanhosts.infrastructure.capstan.dev", relabel)),
		call(boundary, who, "take over an API group", admin,
			patch("/apis/apiregistration.k8s.io/v1/apiservices/v1beta2.infrastructure.capstan.dev", relabel)),
		call(boundary, who, "write events in the name of others", manager,
			post("/apis/events.k8s.io/v1/namespaces/{ns}/events",
				`{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"x"},`+
					`"eventTime":"2026-01-01T00:00:00.000000Z",`+
					`"reportingController":"x.io/x","reportingInstance":"x","action":"x","reason":"x","type":"Normal",`+
					`"regarding":{"kind":"CapstanHost","namespace":"{ns}","name":"{other}"}}`)),
		call(boundary, who, "list namespaces", manager, get("/api/v1/namespaces")),
		call(boundary, who, "read metrics", admin, get("/metrics")),
		call(boundary, who, "change whose requests are served first", admin,
			patch("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/catch-all", relabel)),
	}
}
