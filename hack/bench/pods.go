package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

const (
	webImage  = "bench.example/web:1" // of hack/web
	manyPods  = 100
	podLimit  = time.Minute
	manyLimit = 5 * time.Minute
)

// workload is a client for a cluster's API.
type workload struct{ kubernetes.Interface }

// workload connects to the API of a cluster.
func (b *bench) workload(ctx context.Context, cluster string) (*workload, error) {
	text, err := b.output(ctx, "cluster", "kubeconfig", cluster)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", cluster, err)
	}
	config.QPS = -1 // this client must not slow down what is measured
	api, err := kubernetes.NewForConfig(config)
	return &workload{api}, err
}

// level reads from the Nodes' labels which ids containers can have.
func (w *workload) level(ctx context.Context, uid int) (string, error) {
	nodes, err := w.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, n := range nodes.Items {
		if n.Labels["capstan.dev/ids"] != "all" {
			return levelOneID, nil
		}
	}
	if uid == 0 {
		return levelRoot, nil
	}
	return levelSubordinate, nil
}

func container(args ...string) []corev1.Container {
	return []corev1.Container{{Name: "web", Image: webImage, Args: args}}
}

func labels(app string) map[string]string { return map[string]string{"app": app} }

func deployment(name string, replicas int32, containers []corev1.Container) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To(replicas), Selector: &metav1.LabelSelector{MatchLabels: labels(name)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(name)},
				Spec:       corev1.PodSpec{Containers: containers, TerminationGracePeriodSeconds: ptr.To[int64](1)},
			},
		},
	}
}

// serveByName creates two web servers and their Service, and returns when a pod has fetched a page by the Service's
// name.
func (w *workload) serveByName(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, manyLimit)
	defer cancel()
	servers := container("serve")
	servers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt(80)}},
	}
	if _, err := w.AppsV1().Deployments("default").Create(ctx, deployment("web", 2, servers),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := w.CoreV1().Services("default").Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.ServiceSpec{Selector: labels("web"), Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	_, err := w.run(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "ask", Labels: labels("ask")},
		Spec:       corev1.PodSpec{Containers: container("until", "http://web/"), RestartPolicy: corev1.RestartPolicyNever},
	}, func(p *corev1.Pod) (bool, error) {
		if p.Status.Phase == corev1.PodFailed {
			return false, errors.New("no pod could fetch the Service by its name")
		}
		return p.Status.Phase == corev1.PodSucceeded, nil
	})
	return err
}

// serving reports when the pods of CoreDNS and of the web server reached each step, in seconds after start. The API
// stores whole seconds.
func (w *workload) serving(ctx context.Context, start time.Time) (lines []string, err error) {
	for namespace, label := range map[string]string{"kube-system": "k8s-app=kube-dns", "default": "app=web"} {
		pods, err := w.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: label})
		if err != nil {
			return nil, err
		}
		for _, p := range pods.Items {
			at := map[corev1.PodConditionType]string{corev1.PodScheduled: "?", corev1.PodReady: "?"}
			for _, c := range p.Status.Conditions {
				if c.Status == corev1.ConditionTrue {
					at[c.Type] = fmt.Sprintf("%.0f", c.LastTransitionTime.Sub(start).Seconds())
				}
			}
			started := "?"
			for _, c := range p.Status.ContainerStatuses {
				if c.State.Running != nil {
					started = fmt.Sprintf("%.0f", c.State.Running.StartedAt.Sub(start).Seconds())
				}
			}
			lines = append(lines, fmt.Sprintf("%s on %s: scheduled %s, started %s, Ready %s", p.Name, p.Spec.NodeName,
				at[corev1.PodScheduled], started, at[corev1.PodReady]))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// steps are the times until a pod was scheduled and until it was Ready, as a watch saw them.
type steps struct{ scheduled, ready time.Duration }

// run creates a pod, waits until it is in the wanted state, deletes it, and waits until it is gone. It returns the time
// of each step.
func (w *workload) run(
	ctx context.Context, pod *corev1.Pod, done func(*corev1.Pod) (bool, error),
) (s steps, err error) {
	pods := w.CoreV1().Pods("default")
	selector := metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name}
	events, err := pods.Watch(ctx, selector)
	if err != nil {
		return s, err
	}
	defer events.Stop()
	began := time.Now()
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return s, err
	}
	deleted := false
	var last *corev1.Pod
	for {
		select {
		case <-ctx.Done():
			return s, w.late(last, deleted, ctx.Err())
		case e, open := <-events.ResultChan():
			now, is := e.Object.(*corev1.Pod)
			switch {
			case !open || !is:
				return s, fmt.Errorf("watching pod %s: the API server stopped: %v", pod.Name, e.Object)
			case e.Type == watch.Deleted:
				if !deleted {
					return s, fmt.Errorf("somebody else deleted pod %s", pod.Name)
				}
				return s, nil
			case deleted:
				last = now
				continue
			}
			last = now
			if s.scheduled == 0 && now.Spec.NodeName != "" {
				s.scheduled = time.Since(began)
			}
			if deleted, err = done(now); err != nil {
				return s, err
			}
			if deleted {
				s.ready = time.Since(began)
				if err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
					return s, err
				}
			}
		}
	}
}

// late describes a pod that did not reach the wanted state in time, with its Events.
func (w *workload) late(pod *corev1.Pod, deleted bool, err error) error {
	if pod == nil {
		return fmt.Errorf("no event of a new pod came: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), podLimit)
	defer cancel()
	text := fmt.Sprintf("deleted by us: %v, deleted at: %v, status: %s", deleted, pod.DeletionTimestamp,
		pod.Status.String())
	events, listErr := w.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.name=" + pod.Name,
	})
	if listErr == nil {
		for _, e := range events.Items {
			text += fmt.Sprintf("\n  %s %s: %s", e.LastTimestamp.Format(time.TimeOnly), e.Reason, e.Message)
		}
	}
	return errors.Join(fmt.Errorf("waiting for pod %s: %w; %s", pod.Name, err, text), listErr)
}

// oneAfterAnother creates pods one by one, each when the previous one is gone.
func (w *workload) oneAfterAnother(ctx context.Context, n int) (all []steps, err error) {
	for i := range n {
		one, cancel := context.WithTimeout(ctx, podLimit)
		s, err := w.run(one, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("one-%d", i)},
			Spec:       corev1.PodSpec{Containers: container("wait"), TerminationGracePeriodSeconds: ptr.To[int64](1)},
		}, func(p *corev1.Pod) (bool, error) {
			return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}), nil
		})
		cancel()
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// many creates a Deployment of n pods, deletes it again, and returns how long it took until all pods were Ready.
func (w *workload) many(ctx context.Context, n int32) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, manyLimit)
	defer cancel()
	const name = "many"
	deployments := w.AppsV1().Deployments("default")
	events, err := deployments.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err != nil {
		return 0, err
	}
	defer events.Stop()
	began := time.Now()
	if _, err := deployments.Create(ctx, deployment(name, n, container("wait")), metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	for took == 0 {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for %d pods: %w", n, ctx.Err())
		case e, open := <-events.ResultChan():
			d, is := e.Object.(*appsv1.Deployment)
			if !open || !is {
				return 0, fmt.Errorf("watching the pods: the API server stopped: %v", e.Object)
			}
			if d.Status.ReadyReplicas == n {
				took = time.Since(began)
			}
		}
	}
	return took, w.remove(ctx, name)
}

// remove deletes a Deployment, and waits until it and its pods are gone.
func (w *workload) remove(ctx context.Context, name string) error {
	foreground := metav1.DeletePropagationForeground
	deployments := w.AppsV1().Deployments("default")
	if err := deployments.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		return err
	}
	for {
		_, err := deployments.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the end of %s: %w", name, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// percentile returns the smallest value that at least this percentage of all values does not exceed. Pure.
func percentile(all []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(int(math.Ceil(float64(len(sorted)*percent)/100)), 1)-1]
}
