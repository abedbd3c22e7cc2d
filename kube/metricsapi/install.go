package metricsapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	clientrest "k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/kube/mode"
)

// An Installer applies the objects of a release to a cluster.
type Installer struct {
	cluster dynamic.Interface
	version string
	retries apiwait.Backoff
}

// retries is the schedule of attempts, over about 20 seconds.
var retries = apiwait.Backoff{Duration: 250 * time.Millisecond, Factor: 1.6, Jitter: 0.1, Steps: 9}

// Limits of the installer's requests.
const (
	requestLimit = 10 * time.Second
	installLimit = 40 * time.Second
	requestRate  = 100 // per second; client-go's default would delay the requests, which follow each other closely
)

// NewInstaller returns an Installer for the cluster of a configuration.
func NewInstaller(config *clientrest.Config, version string) (*Installer, error) {
	config = clientrest.CopyConfig(config)
	config.Timeout, config.QPS, config.Burst = requestLimit, requestRate, requestRate
	cluster, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Installer{cluster, version, retries}, nil
}

// Install applies all objects to a new cluster. It reports false if the cluster should not have them: its pods are
// hollow or run in another container runtime, or kubeadm was told to omit its own add-ons.
func (i *Installer) Install(ctx context.Context) (installed bool, err error) {
	return i.retry(ctx, func(ctx context.Context) (bool, error) {
		if runs, err := i.runsPods(ctx); err != nil || !runs {
			return false, err
		}
		if has, err := i.hasAddOns(ctx); err != nil || !has {
			return false, err
		}
		return true, i.apply(ctx)
	})
}

// Refresh applies all objects to a cluster that has those of another release. It reports false if the cluster has those
// of this release, or has none because somebody removed them or never wanted them.
func (i *Installer) Refresh(ctx context.Context) (refreshed bool, err error) {
	return i.retry(ctx, func(ctx context.Context) (bool, error) {
		has, err := i.get(ctx, "apps/v1", "deployments", Namespace, Name)
		if err != nil || has == nil {
			return false, err
		}
		for _, c := range containersOf(has) {
			if image, _, _ := unstructured.NestedString(c, "image"); strings.HasSuffix(image, ":"+i.version) {
				return false, nil
			}
		}
		return true, i.apply(ctx)
	})
}

// retry runs a step until it succeeds or the time is up.
func (i *Installer) retry(ctx context.Context, step func(context.Context) (bool, error)) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, installLimit)
	defer cancel()
	waited := apiwait.ExponentialBackoffWithContext(ctx, i.retries, func(ctx context.Context) (bool, error) {
		done, err = step(ctx)
		return err == nil, nil
	})
	if waited != nil && err == nil {
		err = waited
	}
	return done && err == nil, err
}

// runsPods reports whether a Node of the cluster runs real pods in our runtime.
func (i *Installer) runsPods(ctx context.Context) (bool, error) {
	nodes, err := i.cluster.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"}).
		List(ctx, metav1.ListOptions{LabelSelector: mode.IDsLabel, Limit: 1})
	if err != nil {
		return false, fmt.Errorf("listing Nodes: %w", err)
	}
	return len(nodes.Items) > 0, nil
}

// hasAddOns reports whether the cluster has one of kubeadm's own add-ons.
func (i *Installer) hasAddOns(ctx context.Context) (bool, error) {
	proxy, err := i.get(ctx, "apps/v1", "daemonsets", Namespace, "kube-proxy")
	if err != nil || proxy != nil {
		return proxy != nil, err
	}
	dns, err := i.get(ctx, "apps/v1", "deployments", Namespace, "coredns")
	return dns != nil, err
}

// get returns an object, or nil if the cluster lacks it.
func (i *Installer) get(ctx context.Context, version, resource, ns, name string) (*unstructured.Unstructured, error) {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		return nil, err
	}
	object, err := i.cluster.Resource(gv.WithResource(resource)).Namespace(ns).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("reading %s %s/%s: %w", resource, ns, name, err)
	}
	return object, nil
}

// containersOf returns the containers of a Deployment's pods.
func containersOf(deployment *unstructured.Unstructured) (all []map[string]any) {
	list, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	for _, each := range list {
		if c, ok := each.(map[string]any); ok {
			all = append(all, c)
		}
	}
	return all
}

// apply applies all objects.
func (i *Installer) apply(ctx context.Context) error {
	objects, err := objectsOf(Manifest(i.version))
	if err != nil {
		return err
	}
	for _, object := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		_, err := i.cluster.Resource(resource).Namespace(object.GetNamespace()).Apply(ctx, object.GetName(), object,
			metav1.ApplyOptions{FieldManager: "capstan-kube", Force: true})
		if err != nil {
			return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// objectsOf returns the objects of a manifest.
func objectsOf(text string) (all []*unstructured.Unstructured, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the manifest: %w", err)
		}
		all = append(all, object)
	}
}
