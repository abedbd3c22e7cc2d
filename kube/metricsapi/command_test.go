package metricsapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// TestServer sends requests as the API server would, to a server without authentication and authorization.
func TestServer(t *testing.T) {
	config := newConfig()
	config.LoopbackClientConfig, config.ExternalAddress = &rest.Config{}, serviceName+":443"
	server, err := config.Complete(nil).New(Name, genericapiserver.NewEmptyDelegate())
	if err != nil {
		t.Fatal(err)
	}
	s := fake.NewTestScheme()
	if err := metav1.AddMetaToScheme(s); err != nil {
		t.Fatal(err)
	}
	objects := fake.NewSimpleMetadataClient(s, &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "one", Name: "p"},
	})
	r := readings(map[container]point{{"one", "p", "c"}: {at: begin, cpu: 5, memory: 1 << 20}})
	if err := serveFrom(server, objects, r); err != nil {
		t.Fatal(err)
	}
	handler := server.PrepareRun().Handler
	ask := func(path string, into any) int {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Errorf("%s: %v: %s", path, err, w.Body)
		}
		return w.Code
	}
	const group = "/apis/metrics.k8s.io/v1beta1"
	var resources metav1.APIResourceList
	if code := ask(group, &resources); code != http.StatusOK || len(resources.APIResources) != 2 {
		t.Errorf("resources: %d, %+v", code, resources)
	}
	var pods v1beta1.PodMetricsList
	if code := ask(group+"/namespaces/one/pods", &pods); code != http.StatusOK || len(pods.Items) != 1 ||
		pods.Items[0].Containers[0].Usage.Cpu().MilliValue() != 500 {
		t.Errorf("pods: %d, %+v", code, pods)
	}
	var nothing metav1.Status
	if code := ask(group+"/nodes/n", &nothing); code != http.StatusNotFound {
		t.Errorf("a Node that isn't there: %d, %+v", code, nothing)
	}
}
