//go:build linux

package attack

import "strings"

// blue returns the request with {blue}, the neighbor's namespace, in place of {ns}, the tenant's.
func blue(r request) request {
	r.path, r.body = strings.ReplaceAll(r.path, "{ns}", "{blue}"), strings.ReplaceAll(r.body, "{ns}", "{blue}")
	return r
}

// tenantNamespaces returns attempts of the administrator of one namespace on another namespace and on cluster-scoped
// objects.
func tenantNamespaces() []attempt {
	const boundary = "a tenant has one namespace"
	who := tenant
	return []attempt{
		call(boundary, who, "read Secrets", neighbour, blue(get(core+"secrets"))),
		call(boundary, who, "read hosts", neighbour, blue(get(capstan+"capstanhosts"))),
		call(boundary, who, "read clusters", neighbour, blue(get(clusters+"clusters"))),
		call(boundary, who, "make a machine", neighbour, blue(post(capstan+"capstanmachines", machineNamed("x", "")))),
		call(boundary, who, "get a token of an account", neighbour, blue(post(core+"serviceaccounts/default/token",
			`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":600}}`))),
		call(boundary, who, "bind itself", neighbour, blue(post(rbac+"namespaces/{ns}/rolebindings",
			`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"more"},"roleRef":`+
				`{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"view"},"subjects":`+
				`[{"kind":"ServiceAccount","name":"tenant","namespace":"default"}]}`))),
		call(boundary, who, "make a Lease", admin, blue(post(leases, `{"metadata":{"name":"more"}}`))),
		call(boundary, who, "read Secrets of all namespaces", admin, get("/api/v1/secrets")),
		call(boundary, who, "read hosts of all namespaces", admin,
			get("/apis/infrastructure.capstan.dev/v1beta2/capstanhosts")),
		call(boundary, who, "make a namespace", admin, post("/api/v1/namespaces", `{"metadata":{"name":"more"}}`)),
		call(boundary, who, "delete the other namespace", admin, del("/api/v1/namespaces/{blue}")),
		call(boundary, who, "register an extension for everybody", admin,
			post("/apis/runtime.cluster.x-k8s.io/v1beta2/extensionconfigs", extensionConfig)),
		call(boundary, who, "switch off an admission policy", admin,
			del(admission+"validatingadmissionpolicybindings/{policy}")),
		call(boundary, who, "answer in place of a webhook", admin,
			patch(admission+"validatingwebhookconfigurations/{webhook}", relabel)),
		call(boundary, who, "change a definition", admin, patch("/apis/apiextensions.k8s.io/v1/"+
			"customresourcedefinitions/capstanhosts.infrastructure.capstan.dev", relabel)),
		call(boundary, who, "see what providers are installed", admin,
			get("/apis/clusterctl.cluster.x-k8s.io/v1alpha3/providers")),
	}
}

// tenantRights returns attempts of the administrator of a namespace to get more rights there than a tenant has.
func tenantRights() []attempt {
	const boundary = "a tenant can't widen its rights"
	who := tenant
	role := func(group, resource, verb string) request {
		return post(rbac+"namespaces/{ns}/roles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":`+
			`{"name":"more"},"rules":[{"apiGroups":["`+group+`"],"resources":["`+resource+`"],"verbs":["`+verb+`"]}]}`)
	}
	bind := func(name string) request {
		return post(rbac+"namespaces/{ns}/rolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding",`+
			`"metadata":{"name":"more"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"`+name+
			`"},"subjects":[{"kind":"ServiceAccount","name":"tenant","namespace":"{ns}"}]}`)
	}
	return []attempt{
		call(boundary, who, "bind cluster-admin in its namespace", admin, bind("cluster-admin")),
		call(boundary, who, "bind the manager's role", admin, bind("capstan-plane-manager")),
		call(boundary, who, "bind the role of movers", admin, bind("capstan-mover")),
		call(boundary, who, "make a role that assigns provider ids", admin,
			role("infrastructure.capstan.dev", "capstanmachines/providerid", "assign")),
		call(boundary, who, "make a role that writes the status of hosts", admin,
			role("infrastructure.capstan.dev", "capstanhosts/status", "update")),
		call(boundary, who, "make a role that may do everything", admin, role("*", "*", "*")),
		call(boundary, who, "act as the manager", admin, headed(get(core+"secrets"), "Impersonate-User: capstan:manager")),
	}
}

// machineNamed returns a CapstanMachine as JSON. Its spec consists of the given fields.
func machineNamed(name, fields string) string {
	return `{"apiVersion":"infrastructure.capstan.dev/v1beta2","kind":"CapstanMachine","metadata":{"name":"` + name +
		`","labels":{"cluster.x-k8s.io/cluster-name":"{cluster}"}},"spec":{` + fields + `}}`
}

// tenantClaims returns attempts of a tenant on claims and identities of hosts, which only the controller writes.
func tenantClaims() []attempt {
	const boundary = "claims are the controller's"
	who := tenant
	host := func(name, spec string) request {
		return post(capstan+"capstanhosts", `{"apiVersion":"infrastructure.capstan.dev/v1beta2","kind":"CapstanHost",`+
			`"metadata":{"name":"`+name+`"},"spec":{"zone":"zone-a"`+spec+`}}`)
	}
	const claim = `,"claim":{"machine":"x","machineUID":"x","cluster":"x",` +
		`"providerID":"capstan://default/x/x","hostname":"x"}`
	return []attempt{
		callOr(boundary, who, "a machine with another machine's provider id",
			post(capstan+"capstanmachines", machineNamed("thief", `"providerID":"{providerID}"`)), who,
			post(capstan+"capstanmachines", machineNamed("thief", ""))),
		call(boundary, who, "another machine's provider id, set afterwards", admin,
			patch(capstan+"capstanmachines/{loose}", `{"spec":{"providerID":"{providerID}"}}`)),
		call(boundary, who, "a host with a claim", manager, host("thief", claim)),
		call(boundary, who, "a claim of a free host", manager, patch(capstan+"capstanhosts/{free}",
			`{"spec":{`+claim[1:]+`}}`)),
		call(boundary, who, "a host that the dock supplies", manager, host("host-99", `,"supplier":"dock"`)),
		call(boundary, who, "a host's status", manager, patch(capstan+"capstanhosts/{free}/status",
			`{"status":{"phase":"Off"}}`)),
		call(boundary, who, "a machine's status", manager,
			patch(capstan+"capstanmachines/{loose}/status", `{"status":{"host":"x"}}`)),
		call(boundary, who, "the annotation that says that a host is handed over", manager,
			patch(capstan+"capstanhosts/{host}",
				`{"metadata":{"annotations":{"infrastructure.capstan.dev/handed-over":"x"}}}`)),
		call(boundary, who, "a claimed host's finalizer", manager,
			patch(capstan+"capstanhosts/{host}", `{"metadata":{"finalizers":null}}`)),
	}
}

// authorFiles returns attempts of somebody who may write clusters, but read no Secret, to reach the Secrets of the
// namespace and the classes of another namespace. Cluster API's controllers might help, because they use their own
// rights when they act for this author.
func authorFiles() []attempt {
	const (
		boundary     = "nobody is given what they can't read"
		file         = `"files":[{"path":"/x","contentFrom":{"secret":{"name":"{cluster}-kubeconfig","key":"value"}}}]`
		password     = `"users":[{"name":"x","passwdFrom":{"secret":{"name":"precious","key":"value"}}}]`
		bootstrap    = "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/{ns}/"
		controlPlane = "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/{ns}/"
	)
	who := author
	config := func(spec string) request {
		return post(bootstrap+"kubeadmconfigs", `{"apiVersion":"bootstrap.cluster.x-k8s.io/v1beta2","kind":"KubeadmConfig",`+
			`"metadata":{"name":"more"},"spec":{`+spec+`}}`)
	}
	template := func(path, group, kind, spec string) request {
		return post(path, `{"apiVersion":"`+group+`.cluster.x-k8s.io/v1beta2","kind":"`+kind+`","metadata":{"name":"more"},`+
			`"spec":{"template":{"spec":{`+spec+`}}}}`)
	}
	class := func(patch string) request {
		return post(clusters+"clusterclasses", `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"ClusterClass","metadata":`+
			`{"name":"more"},"spec":{"infrastructure":{"templateRef":{"apiVersion":"infrastructure.capstan.dev/v1beta2",`+
			`"kind":"CapstanClusterTemplate","name":"x"}},"controlPlane":{"templateRef":{"apiVersion":`+
			`"controlplane.cluster.x-k8s.io/v1beta2","kind":"KubeadmControlPlaneTemplate","name":"x"}},`+
			`"patches":[{"name":"more",`+patch+`}]}}`)
	}
	cluster := func(namespace string) request {
		return post(clusters+"clusters", `{"apiVersion":"cluster.x-k8s.io/v1beta2","kind":"Cluster","metadata":`+
			`{"name":"more"},"spec":{"topology":{"classRef":{"name":"capstan-local","namespace":"`+namespace+`"},`+
			`"version":"{version}","controlPlane":{"replicas":1}}}}`)
	}
	inline := `"definitions":[{"selector":{"apiVersion":"controlplane.cluster.x-k8s.io/v1beta2",` +
		`"kind":"KubeadmControlPlaneTemplate","matchResources":{"controlPlane":true}},"jsonPatches":[{"op":"add",` +
		`"path":"/spec/template/spec/kubeadmConfigSpec/files","value":[]}]}]`
	return []attempt{
		callOr(boundary, who, "a Secret as a file of a configuration", config(file), who, config(`"format":"cloud-config"`)),
		callOr(boundary, who, "a Secret as a password", config(password), admin, config(password)),
		call(boundary, who, "a Secret as a file of a template", admin,
			template(bootstrap+"kubeadmconfigtemplates", "bootstrap", "KubeadmConfigTemplate", file)),
		call(boundary, who, "a Secret as a file of a control plane's template", admin, template(
			controlPlane+"kubeadmcontrolplanetemplates", "controlplane", "KubeadmControlPlaneTemplate",
			`"kubeadmConfigSpec":{`+file+`}`)),
		call(boundary, who, "a Secret as a file, by a patch of a class", admin, class(inline)),
		callOr(boundary, who, "the templates of another namespace's class", cluster("{blue}"), who, cluster("{ns}")),
	}
}
