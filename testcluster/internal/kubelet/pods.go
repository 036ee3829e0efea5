package kubelet

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// podLoop takes pods through their life: bound, running, gone.
type podLoop struct {
	client    kubernetes.Interface
	sandboxes *sandboxes
	informers informers.SharedInformerFactory
	pods      listers.PodLister
	queue     workqueue.TypedRateLimitingInterface[cache.ObjectName]
}

// newPodLoop returns when the first list of pods has arrived.
func newPodLoop(ctx, starting context.Context, client kubernetes.Interface, sandboxes *sandboxes) (*podLoop, error) {
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods()
	loop := &podLoop{
		client:    client,
		sandboxes: sandboxes,
		informers: factory,
		pods:      informer.Lister(),
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]()),
	}
	_, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    loop.enqueue,
		UpdateFunc: func(_, object any) { loop.enqueue(object) },
		DeleteFunc: loop.enqueue,
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(starting.Done(), informer.Informer().HasSynced) {
		return nil, errors.New("stopped before the first list of pods")
	}
	return loop, nil
}

func (l *podLoop) run(ctx context.Context) {
	stop := context.AfterFunc(ctx, l.queue.ShutDown)
	defer stop()
	for {
		name, shutdown := l.queue.Get()
		if shutdown {
			break
		}
		l.step(ctx, name)
	}
	l.informers.Shutdown()
}

func (l *podLoop) enqueue(object any) {
	name, err := cache.DeletionHandlingObjectToName(object)
	if err != nil {
		klog.Errorf("pod without a name: %v", err)
		return
	}
	l.queue.Add(name)
}

func (l *podLoop) step(ctx context.Context, name cache.ObjectName) {
	defer l.queue.Done(name)
	err := l.sync(ctx, name)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		l.queue.Forget(name)
	case ctx.Err() != nil:
	default:
		// Conflicts are ordinary; all else ends up in the log and is retried.
		klog.Infof("pod %s: %v", name, err)
		l.queue.AddRateLimited(name)
	}
}

func (l *podLoop) sync(ctx context.Context, name cache.ObjectName) error {
	pod, err := l.pods.Pods(name.Namespace).Get(name.Name)
	if apierrors.IsNotFound(err) {
		return l.sandboxes.remove(name)
	}
	if err != nil {
		return err
	}
	switch {
	case pod.DeletionTimestamp != nil:
		return l.end(ctx, pod)
	case pod.Spec.NodeName == "":
		return l.bind(ctx, pod)
	case pod.Spec.NodeName == NodeName:
		return l.runPod(ctx, pod)
	default:
		return nil
	}
}

func (l *podLoop) bind(ctx context.Context, pod *corev1.Pod) error {
	if len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	return l.client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: NodeName},
	}, metav1.CreateOptions{})
}

func (l *podLoop) runPod(ctx context.Context, pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	if err := l.sandboxes.create(pod); err != nil {
		return err
	}
	if reported(pod) {
		return nil
	}
	running := pod.DeepCopy()
	setRunning(running, metav1.Now())
	_, err := l.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, running, metav1.UpdateOptions{})
	return err
}

// end confirms a deletion. A pod with finalizers stays after that, with a
// grace period of zero, and is then no longer our business.
func (l *podLoop) end(ctx context.Context, pod *corev1.Pod) error {
	if ptr.Deref(pod.DeletionGracePeriodSeconds, 0) == 0 {
		return nil
	}
	return l.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: ptr.To[int64](0),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	})
}

// reported tells whether the status already says what setRunning would say.
// Debug containers may join a pod that has been running for long.
func reported(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning &&
		len(pod.Status.EphemeralContainerStatuses) == len(pod.Spec.EphemeralContainers)
}

func setRunning(pod *corev1.Pod, now metav1.Time) {
	status := &pod.Status
	status.Phase = corev1.PodRunning
	if status.StartTime == nil {
		status.StartTime = &now
	}
	status.HostIP = address
	status.HostIPs = []corev1.HostIP{{IP: address}}
	status.PodIP = address
	status.PodIPs = []corev1.PodIP{{IP: address}}
	for _, kind := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		setTrue(status, kind, now)
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	completed := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}
	status.InitContainerStatuses = nil
	for _, container := range pod.Spec.InitContainers {
		state := completed
		if ptr.Deref(container.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways {
			state = running
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, containerStatus(pod, container.Name, container.Image, state))
	}
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, containerStatus(pod, container.Name, container.Image, running))
	}
	status.EphemeralContainerStatuses = nil
	for _, container := range pod.Spec.EphemeralContainers {
		status.EphemeralContainerStatuses = append(status.EphemeralContainerStatuses, containerStatus(pod, container.Name, container.Image, running))
	}
}

func setTrue(status *corev1.PodStatus, kind corev1.PodConditionType, now metav1.Time) {
	condition := corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now}
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			if status.Conditions[i].Status != corev1.ConditionTrue {
				status.Conditions[i] = condition
			}
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}

func containerStatus(pod *corev1.Pod, name, image string, state corev1.ContainerState) corev1.ContainerStatus {
	return corev1.ContainerStatus{
		Name:        name,
		Image:       image,
		ImageID:     "testcluster://" + image,
		ContainerID: fmt.Sprintf("testcluster://%s/%s", pod.UID, name),
		State:       state,
		Ready:       true,
		Started:     ptr.To(state.Running != nil),
	}
}
