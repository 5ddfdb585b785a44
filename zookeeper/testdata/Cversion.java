import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/** Sets the number of a node's next sequential child in the data of a server that is down. */
public class Cversion {
    public static void main(String[] args) throws Exception {
        File dir = new File(args[0]);
        FileTxnSnapLog log = new FileTxnSnapLog(dir, dir);
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();
        log.restore(tree, sessions, (header, record, digest) -> {});
        tree.getNode(args[1]).stat.setCversion(Integer.parseInt(args[2]));
        log.save(tree, sessions, true);
        log.close();
    }
}
