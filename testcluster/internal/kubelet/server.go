package kubelet

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"k8s.io/client-go/tools/cache"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

const (
	idleTimeout     = 4 * time.Hour
	creationTimeout = remotecommand.DefaultStreamCreationTimeout
)

// routes are the paths that kube-apiserver calls for a pod's subresources.
func (k *Kubelet) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") })
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.inPod(serveLogs))
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", k.inPod(serveExec))
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", k.inPod(serveAttach))
	mux.HandleFunc("/portForward/{namespace}/{pod}", k.inPod(servePortForward))
	return mux
}

// onlyCaller keeps everybody else who has a certificate of the same authority,
// such as the test users, from running commands on this machine.
func onlyCaller(commonName string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName != commonName {
			http.Error(w, "only the API server may call", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (k *Kubelet) inPod(handle func(http.ResponseWriter, *http.Request, *sandbox)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := cache.ObjectName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
		pod := k.sandboxes.get(name)
		if pod == nil {
			http.Error(w, fmt.Sprintf("pod %s does not run here", name), http.StatusNotFound)
			return
		}
		handle(w, r, pod)
	}
}

func serveExec(w http.ResponseWriter, r *http.Request, pod *sandbox) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, pod, pod.name.Name, string(pod.uid), r.PathValue("container"), r.URL.Query()["command"],
		options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
}

func serveAttach(w http.ResponseWriter, r *http.Request, pod *sandbox) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, r, pod, pod.name.Name, string(pod.uid), r.PathValue("container"),
		options, idleTimeout, creationTimeout, remotecommand.SupportedStreamingProtocols)
}

func servePortForward(w http.ResponseWriter, r *http.Request, pod *sandbox) {
	options, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, pod, pod.name.Name, string(pod.uid), options, idleTimeout, creationTimeout, portforward.SupportedProtocols)
}

const (
	// pastLines is how much a container has written before anybody asks.
	pastLines = 3
	// logInterval paces everything that a container keeps saying.
	logInterval = 200 * time.Millisecond
)

// serveLogs invents the container's output: a few lines of the past, and with
// `follow` one line after the other until the caller or the pod is gone.
func serveLogs(w http.ResponseWriter, r *http.Request, pod *sandbox) {
	query := r.URL.Query()
	first := 1
	if tail, err := strconv.Atoi(query.Get("tailLines")); err == nil && tail >= 0 {
		first = max(1, pastLines-tail+1)
	}
	line := func(number int) error {
		prefix := ""
		if query.Get("timestamps") == "true" {
			prefix = time.Now().UTC().Format(time.RFC3339Nano) + " "
		}
		_, err := fmt.Fprintf(w, "%s%s line %d\n", prefix, r.PathValue("container"), number)
		return err
	}
	w.Header().Set("Content-Type", "text/plain")
	for number := first; number <= pastLines; number++ {
		if err := line(number); err != nil {
			return
		}
	}
	if query.Get("follow") != "true" {
		return
	}
	control := http.NewResponseController(w)
	ticker := time.NewTicker(logInterval)
	defer ticker.Stop()
	for number := pastLines + 1; control.Flush() == nil; number++ {
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-pod.ctx.Done():
			return
		}
		if err := line(number); err != nil {
			return
		}
	}
}
