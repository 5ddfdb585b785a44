import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;

import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryOneTime;

// Peer holds one lock of Curator's at most. It takes "acquire PATH MILLISECONDS"
// and "release" on its input, and answers each with yes or no.
public class Peer {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], new RetryOneTime(100));
        client.start();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        InterProcessMutex mutex = null;
        for (String line; (line = in.readLine()) != null; ) {
            String[] words = line.split(" ");
            boolean ok;
            if (words[0].equals("acquire")) {
                mutex = new InterProcessMutex(client, words[1]);
                ok = mutex.acquire(Long.parseLong(words[2]), TimeUnit.MILLISECONDS);
            } else {
                ok = mutex.isAcquiredInThisProcess();
                mutex.release();
            }
            System.out.println(ok ? "yes" : "no");
        }
        client.close();
        System.exit(0);
    }
}
