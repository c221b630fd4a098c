package millrace.compat;

final class Main {
    private Main() {
    }

    public static void main(String[] args) throws Exception {
        Agent.main(args, Calls::library);
    }
}
